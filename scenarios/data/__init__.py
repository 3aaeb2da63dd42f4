"""Scenario files, ledgers, cassettes and texts: what is read and written. Plays and judges
nothing.
"""
