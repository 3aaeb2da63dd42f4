"""What Python and the machine give: locks, signals, digests, YAML, tokens. Knows nothing of
entries.
"""
