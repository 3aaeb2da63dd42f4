"""Verbs that give a coding client the memory, and look whether it has it."""
