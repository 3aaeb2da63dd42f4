"""Shared tool calls: another agent's result is reused, awaited, or made and shared. Takes no turn
of an agent.
"""
