"""Verbs that give a coding client the memory, take it out again, and check whether it has it."""
