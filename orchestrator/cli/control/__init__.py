"""Verbs that step in: end runs, and go on with those whose process died."""
