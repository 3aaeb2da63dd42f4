"""Full text: the words of entries, filled in beside the append, and what a question by words finds.

What is near by meaning stands in `vectors/`. `synapse.search` and the views ask here; `Index` fills
the words in.
"""
