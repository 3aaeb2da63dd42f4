"""The files of runs and of their supervisors: steps, ledgers, marks, leases. Calls no model."""
