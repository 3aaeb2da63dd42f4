"""What people run will live here: the demo and the Brain Suite, which measures what coordination
costs.
"""
