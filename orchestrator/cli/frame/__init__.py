"""Formatting, options and engines that the verbs of the orchestrator share. No verb."""
