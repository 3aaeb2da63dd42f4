"""Webhooks: entries go out to addresses that a person trusted, and texts come in from outside.

Nothing here opens a port: the server has the routes. `sender` is run by whoever stays up.
"""
