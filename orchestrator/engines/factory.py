"""An engine by its name, made as synapse.yaml has it. A file chooses from the list of kinds; only a
program, or a person on the command line, names a class.

What a workspace asks for beyond the built-in engine needs a person's trust. Called wherever an
engine is made by name.
"""

from __future__ import annotations

from orchestrator.engines import protocol
from orchestrator.engines.protocol import Engine
from synapse.formats.wants import of_engine
from synapse.trust import decisions


def make(name: str, engines: object, root: str | None, *, by_program: bool = False) -> Engine:
    """Return the engine of this name. `engines` is the block of the settings, `root` the workspace
    that they are of. NotTrusted where that asks for more than the built-in one does, and no person
    allowed it.
    """
    kind, options = protocol.declared(engines, name)
    if kind not in protocol.ENGINES and not by_program:
        raise protocol.no_engine(kind, engines)
    trusted = decisions.demand(root, of_engine(engines, name))
    if trusted:
        options[protocol.TRUSTED] = trusted
    return protocol.load(kind, **options)
