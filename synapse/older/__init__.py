"""What there was before: `synapse.json` for mail, Cortex for knowledge. Read into values, and the former written again.

Liberal in what is read: a field has several names in the wild. Nothing is dropped: what has no place in our values
stands in `rest`, and what cannot be kept at all is told as a problem, with its place. Knows no log.
"""
