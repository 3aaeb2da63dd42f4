"""The projection: SQLite tables derived from a log. They may be deleted at any time."""
