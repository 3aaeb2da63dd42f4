"""What a person accepts with `synapse trust --text`, for the tests. Holds no test."""

from synapse.log.accepted import Accepted
from synapse.log.chain import imprint
from synapse.log.unite import lines_of


def accept(root, lines=None):
    """Have every line of a journal count, or these, as if they had been written here."""
    accepted = Accepted(str(root))
    accepted.add([*map(imprint, lines_of(str(root), strict=False) if lines is None else lines)])
    accepted.close()
    return root
