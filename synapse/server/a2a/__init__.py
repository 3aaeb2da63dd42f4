"""The memory as an agent of A2A: its card, and its skills over JSON-RPC.

`routes` loads the rest with the first request: it needs the SDK, and few workspaces are asked so.
"""
