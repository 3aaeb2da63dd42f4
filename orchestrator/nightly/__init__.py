"""Nightly maintenance: its schedule, its job, and the proposals of a model for it."""
