"""Runs played by the shipped supervisor: worlds, agents, arms, faults."""
