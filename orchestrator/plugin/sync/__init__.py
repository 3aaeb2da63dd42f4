"""The memory beside the files in which coding clients keep theirs: read as proposals, and what the
team decided written into a block of each."""
