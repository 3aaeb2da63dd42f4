"""Verbs that give work to agents."""
