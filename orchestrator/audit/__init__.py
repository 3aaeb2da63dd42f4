"""What recorded sessions cost: transcripts of clients, of our own runs and traces are read, and
nothing is changed or sent. Called by the shell's `audit`.
"""
