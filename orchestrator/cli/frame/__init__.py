"""Formatting and options that the verbs of the orchestrator share. No verb."""
