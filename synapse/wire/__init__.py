"""What goes over the wire: the JSON forms of entries, pages, views and events.

Knows no protocol and opens nothing.
"""

# What the server offers under `/v1/`, as its header `Synapse-Api` says: behind the dot what was
# added, which older clients pass over; before it what is another, as the path is.
API = "1.0"
