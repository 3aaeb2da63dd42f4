"""The frame of a shell program, whatever its verbs: options, parsing, one call, output."""
