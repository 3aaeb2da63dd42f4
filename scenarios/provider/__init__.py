"""A provider that follows a script, on loopback: the model of sessions of real clients. Formats
other than Anthropic's are in `tests/formats`.
"""
