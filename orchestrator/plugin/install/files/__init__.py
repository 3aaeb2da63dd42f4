"""Edits of files that others write too: put in, taken out, written together or not at all."""
