"""Other programs' interfaces to the memory, and what older stores held. Nothing below imports
it.
"""
