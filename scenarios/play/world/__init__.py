"""What is true in a run, the texts that say so, and the judge of its work."""
