"""The memory's side of runs: how they begin, go on, hear news, are charged, and end. All of it runs
on the memory's thread and calls no model.
"""
