"""Searching entries by words and by meaning, for one reader. Writes nothing but vectors."""
