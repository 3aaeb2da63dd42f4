"""Records made ready for their line: an entry under its id, the declaration of an agent. Pure.

The log decides id and time and calls this under its lock. The bytes of a line are made in `chain`.
"""

from __future__ import annotations

from synapse.errors import NoKey
from synapse.model import clock
from synapse.model.agents import Agent
from synapse.model.entry import SEALED, Entry, is_id
from synapse.model.records import Record, fields_of
from synapse.system.typed import Any


def entry_record(record: Record, at: int, id: str, alias_free: bool) -> Record:
    """Return a new entry's record under its id. An entry that came as a text of its own keeps that
    text.
    """
    from synapse.formats import codec

    assert record.entry is not None
    if record.entry.scope in SEALED:
        _demand_envelope(record.entry)
    alias_id = record.fields.get("alias")
    alias = alias_id if alias_free and alias_id and alias_id != id and is_id(alias_id) else None
    timestamp = record.entry.timestamp or clock.seconds(at)
    entry = record.entry._replace(id=id, timestamp=timestamp, alias=alias)
    fields = fields_of(entry)
    for name, value in record.fields.items():
        if name != "alias":
            fields[name] = value
    text = record.text
    if text is None:
        text = codec.render(entry)
        fields["start"] = len(text) - len(entry.body) - 1
    return record._replace(id=id, fields=fields, text=text)


def _demand_envelope(entry: Entry) -> None:
    """Refuse the plain text of a sealed scope, whoever writes it: it never comes to the disk."""
    from synapse import crypto

    if not crypto.is_envelope(entry.body):
        raise NoKey(
            f"scope: {entry.scope} needs a key to seal it: nothing was stored;"
            " `synapse keys` says which there are"
        )


def agent_record(
    agent: Agent, by: str, was: Agent | None, how: str = "registered", sha: str | None = None
) -> Record:
    """Return the record that declares an agent, with what it was before, and the digest of the file
    that declares it.
    """
    fields = {"agent": _declared(agent), "how": how} | ({"was": _declared(was)} if was else {})
    return Record.new("agent", by, fields | ({"sha": sha} if sha else {}))


def _declared(agent: Agent) -> dict[str, Any]:
    fields = agent._asdict()
    del fields["shift"]
    return fields
