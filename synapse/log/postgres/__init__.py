"""The journal's commit in PostgreSQL: several machines share one log, and each has its files.

`PgJournal` is a `Journal` whose lines are committed by the database; the local segments are a copy,
byte for byte, which is written after the commit. `database` talks to the server, `listener` is told
of new lines. Nothing outside of this folder knows psycopg.
"""
