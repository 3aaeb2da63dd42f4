"""Text and values: entry files, declared files, the older formats. The only folder that parses
them.
"""
