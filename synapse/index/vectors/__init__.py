"""Meaning: the vectors of texts in a file of their own, which of them are near, and which texts
have none yet.

No embedder is called here. `synapse.search.semantic` asks, and the store opens the file.
"""
