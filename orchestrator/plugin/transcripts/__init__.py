"""Transcripts of clients, read for the tokens that a conversation used."""
