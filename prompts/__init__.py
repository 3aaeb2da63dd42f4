"""The Jinja templates of the prompts, as data. Nothing here imports anything."""
