"""How fast the memory is, beside what the machine can do and what people would use instead: `python
-m bench`.
"""
