"""History: what happened, as sentences and by time, as far as the reader may see it."""
