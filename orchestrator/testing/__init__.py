"""For users' own tests: `contract`, the tests that any engine must pass, and `virtual`, a clock
that jumps. Needs no test framework.
"""
