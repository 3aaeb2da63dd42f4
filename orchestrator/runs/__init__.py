"""Runs: their records, folders, steps, leases, and what is asked and left. Calls no model."""
