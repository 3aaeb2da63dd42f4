"""Keys: a person's private ones for a workspace, and the acts that register and end them.

What is done with a key stands in `synapse.crypto`, what the log holds of one in `model.keys`.
"""
