"""The MCP server: the memory as tools, resources and a prompt for any client of the Model Context
Protocol.

`serve_stdio` and `serve_http` are all that a program needs, and `identify`: a function from a
`Caller` to the agent memory that it acts at, asked with each request. Nothing here decides who may
read or write: that is the agent memory's. The SDK is imported by `server` and the modules above it,
never by `import synapse`.
"""

from __future__ import annotations

import shlex
import sys

SDK = "mcp>=2.3,<3"


def is_installed() -> bool:
    """Return whether the SDK is there, without loading it."""
    from importlib.util import find_spec

    return find_spec("mcp") is not None and find_spec("mcp_types") is not None


def installation() -> str:
    """Return the command that installs the SDK where this Python looks for it. Our own name is not
    given: it is not ours on the package index.
    """
    return shlex.join((sys.executable, "-m", "pip", "install", SDK))
