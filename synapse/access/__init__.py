"""Access: what one agent may do with the memory, and the records that it writes.

`gate` says what an agent may see, name and rule on, `writer` puts records in its name into the log.
`claims`, `review`, `sharing`, `successors` and `containment` are its acts on work and on entries
that are there already: each act is a record, and no entry is changed. `AgentMemory` offers them.
"""
