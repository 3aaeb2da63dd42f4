"""Knowledge: facts, atoms and links, how they are recalled, and what they were made from."""
