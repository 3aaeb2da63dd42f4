"""Interfaces of other programs to the memory, and import from older stores.

Nothing below imports it.
"""
