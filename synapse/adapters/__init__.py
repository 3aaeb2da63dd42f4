"""The memory in agents of other frameworks: one module for each, and what they have in common.

A framework is imported when its adapter is made, never before. Only what programs may use of
Synapse is used here. docs/how-to/frameworks.md.
"""
