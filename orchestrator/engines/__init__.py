"""The engines: model providers, coding clients, scripts. Each module is imported when its engine is
asked for, and knows nothing of memory.
"""
