"""Merges and summaries that a model proposes: its calls, the question, and what passes."""
