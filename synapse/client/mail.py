"""`RemoteMail`: the mail of the token's agent, with the methods of `Mail`.

A file that is attached is read here, where it lies: a message holds its place and digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from synapse.acts import mail as acts
from synapse.client.remote import remote
from synapse.client.session import Session
from synapse.errors import Forbidden
from synapse.model.message import Message
from synapse.system.typed import Any


def _note(mail: RemoteMail, messages: Sequence[Message], given: Mapping[str, Any]) -> None:
    if given["agent"] not in (None, mail.agent_memory.id):
        raise Forbidden("only the agent itself can mark its mail as read", action="mark")
    if messages:
        mail.read([message.id for message in messages])


class RemoteMail:
    """An agent's mail on a server."""

    def __init__(self, agent_memory: Session) -> None:
        self.agent_memory = agent_memory

    send = remote(acts.send)
    reply = remote(acts.reply)
    edit = remote(acts.edit)
    poll = remote(acts.poll)
    inbox = remote(acts.inbox, _note)
    read = remote(acts.read)
    ack = remote(acts.ack)
    react = remote(acts.react)
    get = remote(acts.get)
    threads = remote(acts.threads)
    thread = remote(acts.thread)
    history = remote(acts.history)
    close = remote(acts.close)
    reopen = remote(acts.reopen)
    tag = remote(acts.tag)
    rename = remote(acts.rename)
