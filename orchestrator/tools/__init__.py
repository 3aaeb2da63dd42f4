"""Tools that users register, and those of MCP servers: schemas, calls, results.

Names are loaded when they are first used: who looks at calls pays for nothing that makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.tools.calls import Shares as Shares
    from orchestrator.tools.functions import Partial as Partial
    from orchestrator.tools.functions import tool_of as tool_of

_HOME = {"Shares": "calls", "Partial": "functions", "tool_of": "functions"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'orchestrator.tools' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"orchestrator.tools.{_HOME[name]}"), name)
    globals()[name] = value
    return value
