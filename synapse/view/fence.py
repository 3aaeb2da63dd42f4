"""The fence around text of other agents in a prompt: tags that no text between them closes. Pure.

The fence of an agent is the same in every prompt, so that caches keep what stands before and behind
it. It comes from a secret, where there is one, and the agent's name, never from the text.
"""

from __future__ import annotations

from synapse.system.digest import blake2b

BYTES = 6  # who guesses it gets nothing: a text that holds it makes another one drawn


def fence(secret: bytes, agent: str, text: str) -> str:
    """Return the fence of this agent, in hexadecimal. Where the text contains it, as a text that
    quotes an earlier prompt does, another one is drawn, always the same for the same text.
    """
    folded, drawn = text.lower(), 0
    while True:
        digest = blake2b(
            f"{drawn} {agent}".encode(), key=secret, digest_size=BYTES, person=b"fence"
        ).hexdigest()
        if digest not in folded:
            return digest
        drawn += 1


def tags(fence: str) -> tuple[str, str]:
    """Return the lines that stand before and behind the text in this fence."""
    return f"<memory-{fence}>\n", f"</memory-{fence}>\n"
