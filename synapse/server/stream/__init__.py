"""Live events of the server: `WS /v1/stream` and `SSE /v1/events`, resumed by cursor.

`hub` follows the log for all of them with a follower of `following`, `subscription` is one of them,
`frames` says what is sent and `routes` sends it. What an agent is told of is decided by
`synapse.notify`, as for `follow`.
"""
