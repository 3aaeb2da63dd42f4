"""Verbs that show what runs, and what ran."""
