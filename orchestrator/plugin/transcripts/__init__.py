"""What clients' own transcripts say about the tokens used."""
