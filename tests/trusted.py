"""Trust in a workspace for the tests: what a person gives with `synapse trust`. Holds no test."""

import pytest

from synapse.log.operator_files import OperatorFiles
from synapse.trust import decisions


def trust(root):
    """Trust a workspace with all that its files ask for now."""
    root = str(root)
    asked = decisions.asked(OperatorFiles(root).settings(), root)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SYNAPSE_AGENT", raising=False)
        return decisions.trust(root, asked, "2026-11-01")
