"""Answers to the events of a client: what a session is given of the memory, and what it leaves
there.
"""
