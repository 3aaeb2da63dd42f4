"""Sessions of clients between their hooks: the state, the runs and the agents of their
conversations.
"""
