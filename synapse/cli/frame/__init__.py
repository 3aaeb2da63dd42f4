"""What every shell program here is made of, whatever its verbs: options, one call, output."""
