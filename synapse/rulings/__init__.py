"""Rulings: what an agent or the operator decides about entries that are there already.

Each act is a record; no entry is changed. Whether an agent may, `access` and `authority` say.
"""
