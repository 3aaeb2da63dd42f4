"""The tree of files kept in step with its log: drops are adopted, files follow records."""
