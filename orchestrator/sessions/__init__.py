"""Live sessions: their state, what they work with, the news that concerns them, and where they run.
Calls no model and takes no turn; `turns` does.
"""
