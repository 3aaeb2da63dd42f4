"""Real coding clients on a small repository, with the plugin and without: what is read and done
twice.

Every session is the client's own program against the scripted model server. Needs npm and the
client.
"""
