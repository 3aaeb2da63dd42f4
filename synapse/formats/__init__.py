"""Formats: entry files, declared files and the older formats, as values and back. The only folder
that parses them."""
