"""What coding clients are given of the memory through their own hooks, and what their work leaves
in it.

A client's hook starts `hook.py` with an event as JSON. `event` reads it by the client's facts file,
`respond` decides what is answered, `state` keeps what a session was given. Nothing here calls a
model.
"""
