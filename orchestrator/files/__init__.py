"""The files that conversations work on: how they look, what a change took away, and who is told of
it. Calls no model and knows no client.
"""
