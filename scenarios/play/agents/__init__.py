"""Who plays: agents of known behaviour, how they read a text, and real models in their place."""
