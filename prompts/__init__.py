"""The Jinja templates of the agents' prompts will live here, as data. Nothing yet."""
