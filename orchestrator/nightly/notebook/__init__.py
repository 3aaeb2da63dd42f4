"""The tidying of the notes that an agent keeps in a folder of its own. Calls no model."""
