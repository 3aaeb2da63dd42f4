"""The turns of a session: the loop that takes them, their model calls, and their spans."""
