"""Installations of each client: which files and settings change, and what its doctor can see."""
