"""The supervisor: spawns agents with their view of memory in the prompt, writes back, wakes, and accounts."""
