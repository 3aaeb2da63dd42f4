"""Checks of `orchestrator doctor`: whether each coding client has the memory, and why not."""
