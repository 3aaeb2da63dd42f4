"""Wakes of idle sessions: when, for which entries, and by what each client has for that."""
