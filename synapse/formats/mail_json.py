"""The old `synapse.json`: one list of messages, with who has read each and what was answered. Pure.

Read by the import of older stores, and written back by the export.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from synapse.errors import InvalidEntry
from synapse.model import kinds, namespace
from synapse.model.clock import iso, micros
from synapse.model.message import Message
from synapse.model.records import canonical_body
from synapse.system.digest import sha256
from synapse.system.typed import Any, NamedTuple

KEPT = "synapse_json"  # where a message's metadata has what only the old file knows
EVERYBODY = ("all", "*", "everyone", "broadcast", "")
LONGEST = 4_000  # of what is kept beside a message: it stands in the head of its file
_URGENCY = {"low": "info", "medium": "normal", "high": "action", "critical": "urgent"}
_URGENCY |= {word: word for word in kinds.URGENCY}
_NAMES = {
    "id": ("id", "message_id"),
    "thread": ("thread_id", "thread", "threadId"),
    "parent": ("parent_id", "reply_to", "in_reply_to"),
    "sender": ("from", "from_agent", "sender"),
    "to": ("to", "to_agent", "recipient"),
    "body": ("body", "content", "message", "text"),
    "at": ("created_at", "timestamp", "sent_at", "date", "time"),
}


class Answer(NamedTuple):
    """An agent's acknowledgement of a message, and its answer."""

    agent: str
    body: str | None
    at: str | None = None


class OldMessage(NamedTuple):
    """A message of the old file. `original` is the row as the file has it, without what is found
    again in the message, so that it can be written as it was."""

    id: str
    thread: str
    parent: str | None
    sender: str
    to: tuple[str, ...]
    priority: str
    subject: str | None
    body: str
    at: str | None
    read_by: tuple[str, ...]
    acks: tuple[Answer, ...]
    metadata: Mapping[str, Any]
    kept: Mapping[str, Any]


class OldMail(NamedTuple):
    """A file: its messages, its other fields, and what is wrong with it."""

    messages: tuple[OldMessage, ...]
    rest: Mapping[str, Any]
    problems: tuple[str, ...]


def read(text: str, path: str = "synapse.json") -> OldMail:
    """Return the messages of a file; what cannot be kept is a problem, with its place."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        return OldMail((), {}, (f"{path} is not JSON: {error}",))
    other_fields = (
        {name: value for name, value in document.items() if name != "messages"}
        if isinstance(document, dict)
        else {}
    )
    rows = document.get("messages") if isinstance(document, dict) else document
    if isinstance(rows, dict):  # by their ids
        rows = [{"id": id} | row if isinstance(row, dict) else row for id, row in rows.items()]
    if not isinstance(rows, list):
        return OldMail((), other_fields, (f"{path} holds no list of messages",))
    messages, problems = [], []
    for number, row in enumerate(rows):
        try:
            messages.append(understood(row))
        except InvalidEntry as error:
            problems.append(f"{path}: message {number}: {error}")
    return OldMail(tuple(messages), other_fields, (*problems, *_twice(messages, path)))


def _twice(messages: Iterable[OldMessage], path: str) -> list[str]:
    """Return the problems of two messages with one id, or two agents with one name."""
    by_id: dict[str, OldMessage] = {}
    names: dict[str, str] = {}
    problems = []
    for message in messages:
        if by_id.setdefault(message.id, message) != message:
            problems.append(f"{path}: two different messages have the id {message.kept['id']!r}")
        for name in named(message.kept):
            if names.setdefault(agent_id(name), name) != name:
                problems.append(
                    f"{path}: {name!r} and {names[agent_id(name)]!r} would be one agent here"
                )
    return list(dict.fromkeys(problems))


def understood(row: Any) -> OldMessage:
    """Return one message; InvalidEntry says what cannot be kept."""
    if not isinstance(row, Mapping):
        raise InvalidEntry("it is no object")
    values = {name: _first(row, names) for name, names in _NAMES.items()}
    for name in ("id", "sender", "body"):
        if not isinstance(values[name], str | int) or values[name] == "":
            if name != "body" or not row.get("subject"):
                raise InvalidEntry(f"it has no {name}")
            values["body"] = row["subject"]
    body, priority = str(values["body"]), str(row.get("priority") or "normal")
    if priority.lower() not in _URGENCY:
        raise InvalidEntry(f"priority {priority!r} is not one of {', '.join(_URGENCY)}")
    if values["at"] is not None:
        micros(str(values["at"]))
    to = tuple(map(agent_id, _recipients(values["to"])))
    sender = agent_id(str(values["sender"]))
    acks = _acks(row, to, sender)
    metadata = row.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise InvalidEntry("its metadata is no object")
    return OldMessage(
        new_id(kinds.MESSAGE, str(values["id"])),
        new_thread(values["thread"], str(values["id"])),
        None if values["parent"] is None else new_id(kinds.MESSAGE, str(values["parent"])),
        sender,
        to,
        _URGENCY[priority.lower()],
        None if row.get("subject") is None else str(row["subject"]),
        body,
        None if values["at"] is None else str(values["at"]),
        _readers(row, to, sender, acks),
        acks,
        metadata,
        _kept(row, body),
    )


def _kept(row: Mapping[str, Any], body: str) -> dict[str, Any]:
    """Return the row as it is, without what is found again in the message: its text, unless that is
    stored otherwise."""
    left_out = {name for name in _NAMES["body"] if row.get(name) == canonical_body(body)}
    left_out |= {"metadata"} if row.get("metadata") else set()
    fields = {name: value for name, value in row.items() if name not in left_out}
    if len(json.dumps(fields, ensure_ascii=False)) > LONGEST:
        raise InvalidEntry(
            f"it says more than {LONGEST} characters beside its text, which have no place here"
        )
    return fields


def _first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _recipients(to: Any) -> list[str]:
    names = [to] if isinstance(to, str) else list(to or ())
    names = [str(recipient).strip() for name in names for recipient in str(name).split(",")]
    return [] if any(name.lower() in EVERYBODY for name in names) else names


def _readers(
    row: Mapping[str, Any], to: Sequence[str], sender: str, acks: Sequence[Answer]
) -> tuple[str, ...]:
    listed = row.get("read_by", row.get("readBy"))
    if isinstance(listed, Mapping):  # name: time
        listed = list(listed)
    names = [
        item.get("agent", item.get("agent_id")) if isinstance(item, Mapping) else item
        for item in listed or ()
    ]
    if any(not isinstance(name, str) for name in names):
        raise InvalidEntry("read_by is no list of agents")
    readers = [agent_id(name) for name in names]
    if not readers and (row.get("status") == "read" or row.get("read") is True):
        if len(to) != 1:
            raise InvalidEntry("it is read, and does not say by whom")
        readers = list(to)
    return tuple(
        dict.fromkeys(name for name in (*readers, *(item.agent for item in acks)) if name != sender)
    )


def _acks(row: Mapping[str, Any], to: Sequence[str], sender: str) -> tuple[Answer, ...]:
    """Return who acknowledged it. The old file has one answer, and does not always say whose."""
    if row.get("acks"):
        return tuple(_answer(item) for item in row["acks"])
    by = _first(row, ("acked_by", "ack_by", "acknowledged_by"))
    body, at = _first(row, ("ack_body", "ack")), _first(row, ("acked_at", "ack_at"))
    if isinstance(by, list):
        return tuple(
            _answer(item) if isinstance(item, Mapping) else Answer(agent_id(str(item)), body, at)
            for item in by
        )
    if body is None and by is None and row.get("status") != "acknowledged":
        return ()
    if body is not None and not isinstance(body, str):
        raise InvalidEntry("its ack_body is no text")
    if by is None:
        readers = [
            name
            for name in row.get("read_by") or ()
            if isinstance(name, str) and agent_id(name) != sender
        ]
        candidates = list(to) if len(to) == 1 else readers
        if len(candidates) != 1:
            raise InvalidEntry("it was acknowledged, and does not say by whom: add acked_by")
        by = candidates[0]
    return (Answer(agent_id(str(by)), body, None if at is None else str(at)),)


def _answer(row: Any) -> Answer:
    if not isinstance(row, Mapping) or not isinstance(
        name := _first(row, ("agent", "agent_id")), str
    ):
        raise InvalidEntry("acks is no list of agents with their answers")
    at = _first(row, ("at", "acked_at"))
    return Answer(
        agent_id(name), _first(row, ("body", "ack_body")), None if at is None else str(at)
    )


def named(row: Mapping[str, Any]) -> list[str]:
    """Return the agents that a row names, as it calls them."""
    sender, to = (_first(row, _NAMES[name]) for name in ("sender", "to"))
    readers = row.get("read_by") or ()
    return [str(sender), *_recipients(to), *(name for name in readers if isinstance(name, str))]


# -- names -----------------------------------------------------------------------------


def agent_id(name: str) -> str:
    """Return an agent's name as an id: `Claude Code` is `claude-code`."""
    id = "".join(
        char if char.isascii() and char.isalnum() else "-" for char in name.strip().lower()
    ).strip("-")
    if not namespace.is_component(id):
        raise InvalidEntry(f"{name!r} cannot be the name of an agent")
    return id


def new_id(kind: str, old: str) -> str:
    """Return the id that an item has here: its own where that has the right form, else one derived
    from it."""
    if kinds.kind_of(old) == kind:
        return old
    digits = old.rpartition("_")[2]
    if (
        len(digits) == 12
        and old.startswith(("stm_", "atm_"))
        and set(digits) <= set("0123456789abcdef")
    ):
        return kinds.new_id(kind, bytes.fromhex(digits))
    return kinds.new_id(kind, bytes.fromhex(sha256(f"{kind} {old}".encode())))


def new_thread(old: Any, id: str) -> str:
    """Return the thread's id here. A message without a thread is one of its own."""
    return kinds.thread_from(str(old) if old else f"of {id}")


# -- out again -------------------------------------------------------------------------


def written(messages: Iterable[Message], other_fields: Mapping[str, Any] | None = None) -> str:
    """Return the text of the old file with these messages."""
    return json.dumps(
        {**(other_fields or {}), "messages": [row_of(message) for message in messages]},
        indent=2,
        ensure_ascii=False,
    )


def row_of(message: Message) -> dict[str, Any]:
    """Return a message as the old file has it: one that came from there as it was, with what has
    changed since."""
    metadata = dict(message.entry.more.get("metadata") or {})
    original = metadata.pop(KEPT, None)
    row = _thaw(original) if original is not None else _made(message)
    if not any(row.get(name) is not None for name in _NAMES["body"]):
        row[next((name for name in _NAMES["body"] if name in row), "body")] = message.body
    if metadata:
        row["metadata"] = _thaw(metadata)
    return _since(row, message)


def _made(message: Message) -> dict[str, Any]:
    to = [name.removeprefix("agent:") for name in message.entry.addressees]
    row: dict[str, Any] = {
        "id": message.id,
        "thread_id": message.thread,
        "from": message.sender,
        "to": to[0] if len(to) == 1 else to,
        "priority": message.priority,
        "subject": message.subject,
        "timestamp": iso(message.created),
        "status": message.status,
        "read_by": [],
        "ack_body": None,
    }
    files = _thaw(message.entry.more.get("attachments", ()))
    row |= {"attachments": files} if files else {}
    return row | ({"parent_id": message.parent} if message.parent else {})


def _since(row: dict[str, Any], message: Message) -> dict[str, Any]:
    """Return the row with the reads and acknowledgements that it does not have yet."""
    try:
        old = understood(row)
        readers, acks = set(old.read_by), {ack.agent for ack in old.acks}
    except InvalidEntry:
        readers, acks = set(), set()
    fresh = [mark.agent for mark in message.reads if mark.agent not in readers]
    if fresh:
        before = row.get("read_by") or []
        row["read_by"] = [*(before if isinstance(before, list) else list(before)), *fresh]
    answers = [mark for mark in message.acks if mark.agent not in acks]
    if answers:
        row["ack_body"] = answers[-1].text if row.get("ack_body") is None else row["ack_body"]
        rows = [
            {"agent": mark.agent, "body": mark.text, "at": iso(mark.at)} for mark in message.acks
        ]
        row["acks"], row["acked_by"] = rows, [mark.agent for mark in message.acks]
    if "status" in row and (fresh or answers):
        row["status"] = message.status
    return row


def _thaw(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _thaw(item) for name, item in value.items()}
    return [_thaw(item) for item in value] if isinstance(value, tuple | list) else value
