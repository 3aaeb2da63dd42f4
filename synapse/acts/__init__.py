"""The acts that a server offers: one table, of which everything that repeats them is made.

A row is a function of the library, its place, its answer and who may. The methods of the client,
the routes with their bodies and their document, `docs/reference/http.md` and the rows of the gate's
tests follow from it and from the function's own signature. Runs nothing itself.
"""
