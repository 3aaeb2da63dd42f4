"""The derivation: records become rows, at the times at which they were received, and how far that
has come.

No questions stand here. `Index` calls it, and `replay`; snapshots read entries back from the rows.
"""
