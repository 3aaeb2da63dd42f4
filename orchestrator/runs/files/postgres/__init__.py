"""The runs of a workspace whose log is in PostgreSQL: who is at work on them, on which machine."""
