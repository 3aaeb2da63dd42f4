"""What waits for a person: the list of it, and the answers that let a tree of runs go on."""
