"""The memory of a server, with the methods, the values and the errors of the library.

    with synapse.connect("https://host:8642") as me:      # the token is in $SYNAPSE_TOKEN
        me.append("use /v2/users", "api/endpoints", priority="critical")

Who acts is the agent of the token. Nothing here opens a workspace or decides who may see what.
"""

from __future__ import annotations

from synapse.client.memory import RemoteMemory, connect

__all__ = ["RemoteMemory", "connect"]
