"""Runs as data: records, folders, steps, leases, ledgers, and what tasks ask and results leave.
Calls no model.
"""
