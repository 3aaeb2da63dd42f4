"""Facts, atoms and links: kept, recalled, and traced to what they were made from."""
