"""Figures from ledgers: pure functions. Plays nothing."""
