"""The arms: the product, its ablations, its rivals, and the controls."""
