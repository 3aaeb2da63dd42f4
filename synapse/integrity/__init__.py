"""Integrity: whether a workspace is what it was, its repair, and the one act that erases text.

Nothing here is on the way of a read or of an append. `Memory`, the nightly run and the shell call
it.
"""
