"""What goes over the wire: the JSON forms of entries, pages, views and events.

Knows no protocol and opens nothing.
"""
