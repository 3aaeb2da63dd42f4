"""Messages between agents, in threads, over the same log."""
