"""The engines. Each module is imported when its engine is asked for, and knows nothing of
memory.
"""
