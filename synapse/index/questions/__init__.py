"""Questions of one kind each, to a snapshot: of mail, of links, of what became of entries, of a
night.

Nothing here writes, and none decides about rights. What every reader asks stands in `snapshot` and
`pages`.
"""
