"""Records made ready for their line: an entry under its id, the declaration of an agent. Pure.

The log decides id and time and calls this under its lock. The bytes of a line are made in `chain`.
"""

from __future__ import annotations

from synapse.model import clock
from synapse.model.agents import Agent
from synapse.model.entry import is_id
from synapse.model.records import Record, fields_of
from synapse.system.typed import Any


def load() -> None:
    """Load what rendering an entry needs. Under the log's lock all others would wait for a first
    import.
    """
    from synapse.formats import codec as codec


def entry_record(record: Record, at: int, id: str, alias_free: bool) -> Record:
    """Return a new entry's record under its id. An entry that came as a text of its own keeps that
    text.
    """
    from synapse.formats import codec

    assert record.entry is not None
    wanted = record.fields.get("alias")
    alias = wanted if alias_free and wanted and wanted != id and is_id(wanted) else None
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


def agent_record(
    agent: Agent,
    by: str,
    was: Agent | None,
    how: str = "registered",
    sha: str | None = None,
) -> Record:
    """Return the record that declares an agent, with what it was before, and the digest of the file
    that declares it.
    """
    fields = {"agent": _declared(agent), "how": how} | (
        {"was": _declared(was)} if was else {}
    )
    return Record.new("agent", by, fields | ({"sha": sha} if sha else {}))


def _declared(agent: Agent) -> dict[str, Any]:
    fields = agent._asdict()
    del fields["shift"]
    return fields
