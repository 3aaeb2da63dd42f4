"""The prompts of runs: chosen from the memory, rendered, fitted to their budget, and recorded in a
receipt. Calls no model.
"""
