"""The memory for coding clients: what their sessions are given through their own hooks, and what
they leave in it.

On top lie the three programs that clients start by their path: `hook.py`, `mcp.py` and `watch.py`.
Installed launchers name these paths, so the programs stay where they are. Nothing here calls a
model.
"""
