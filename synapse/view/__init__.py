"""What an agent is shown: entries chosen and cut to a token budget. Reads the index; writes
nothing.
"""
