"""One server for a workspace: REST, live events, webhooks from outside, and the pages for people.

`application` puts it together, `run` serves it. Whoever calls has the rights of a token's agent,
and every answer is what `AgentMemory` gives that agent; nothing here decides who may see what.
"""
