"""What the server shows of the orchestrator: runs over HTTP, and their pages.

Runs, their prompts and their costs are the operator's, as with the verbs of the shell. Nothing here
computes a figure: `orchestrator.reports` does.
"""
