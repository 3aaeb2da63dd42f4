"""Waking idle sessions of clients."""
