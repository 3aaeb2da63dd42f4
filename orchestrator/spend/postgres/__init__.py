"""The budget of a workspace whose log is in PostgreSQL: one for all its machines."""
