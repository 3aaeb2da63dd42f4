"""Reports on runs: what runs and ran, took and cost, was shown and left out, by whom it was read.

Reads records, steps and ledgers of a workspace, and decides nothing. The shell formats what is
found here, and the server answers with it.
"""
