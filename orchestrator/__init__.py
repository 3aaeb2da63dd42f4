"""The supervisor will live here: it spawns agents with their view of memory in the prompt. Nothing yet."""
