"""The tree of files: made for a new workspace, then kept in step with its log: drops are adopted,
files follow records.
"""
