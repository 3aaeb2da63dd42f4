"""What the memory is made of: entries, records, agents, times. Values, pure; used by every other
folder.
"""
