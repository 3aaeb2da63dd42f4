"""Transcripts with known answers, as Claude Code writes them."""

import json
from datetime import UTC, datetime, timedelta

import pytest

ROOT = "/srv/shop"
BEGIN = datetime(2026, 1, 5, 10, tzinfo=UTC)


class Transcript:
    """One session, or one sub-agent of it, minute by minute."""

    def __init__(self, session, agent="", begin=0, model="claude-sonnet-4-5", cwd=ROOT):
        self.session, self.agent, self.model, self.cwd = session, agent, model, cwd
        self.minute, self.rows, self.count = begin, [], 0

    def row(self, type, content=None, **fields):
        self.minute += 1
        at = BEGIN + timedelta(minutes=self.minute)
        row = {"type": type, "timestamp": at.isoformat().replace("+00:00", "Z"), "cwd": self.cwd}
        row |= {"sessionId": self.session, "uuid": f"{self.session}{self.agent}-{len(self.rows)}"}
        row |= {"isSidechain": bool(self.agent)} | ({"agentId": self.agent} if self.agent else {})
        if content is not None:
            row["message"] = {"role": type, "content": content}
        self.rows.append(row | fields)
        return self.rows[-1]

    def prompt(self, text):
        self.row("user", text)

    def turn(self, *blocks, fresh=0, cached=0, written=0, output=0, id=None):
        """A reply, a line for each of its blocks; only the last has all of its usage."""
        self.count += 1
        id = id or f"msg-{self.session}{self.agent}-{self.count}"
        usage = {"input_tokens": fresh, "cache_read_input_tokens": cached}
        usage |= {"cache_creation_input_tokens": written}
        for block in blocks or ({"type": "text", "text": "so"},):
            last = block is blocks[-1] if blocks else True
            row = self.row("assistant", [block])
            row["message"] |= {"id": id, "model": self.model}
            row["message"]["usage"] = usage | {"output_tokens": output if last else 1}

    def call(self, tool, arguments, result, failed=False, details=None, **usage):
        """A reply with one call, and what the call gave."""
        id = f"toolu-{self.session}{self.agent}-{len(self.rows)}"
        block = {"type": "tool_use", "id": id, "name": tool, "input": arguments}
        self.turn({"type": "thinking", "thinking": "hm"}, block, **usage)
        given = {"type": "tool_result", "tool_use_id": id, "content": result, "is_error": failed}
        self.row("user", [given], **({"toolUseResult": details} if details else {}))
        return id

    def read(self, name, text, **more):
        where = {key: more.pop(key) for key in ("offset", "limit") if key in more}
        lines = text.count("\n") + 1
        file = {"content": text, "startLine": where.get("offset", 1)}
        details = {"file": file | {"numLines": lines, "totalLines": lines}}
        path = {"file_path": f"{self.cwd}/{name}"}
        return self.call("Read", path | where, text, details=details, **more)

    def edit(self, name, old, new, failed=False, result="ok"):
        arguments = {"file_path": f"{self.cwd}/{name}", "old_string": old, "new_string": new}
        return self.call("Edit", arguments, result, failed=failed)

    def bash(self, command, result="", **more):
        return self.call("Bash", {"command": command}, result, **more)

    def compact(self):
        self.row("system", subtype="compact_boundary")

    def says(self, text):
        self.turn({"type": "text", "text": text})

    def write(self, folder):
        path = folder / (f"{self.session}.jsonl" if not self.agent else f"agent-{self.agent}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in self.rows), encoding="utf-8")
        return path


@pytest.fixture
def transcript():
    """A class, so that a test can begin as many sessions as it wants."""
    return Transcript


@pytest.fixture
def audited(tmp_path):
    """The figures of these transcripts, or of what lies in the folder."""
    from orchestrator.audit import figures, sources

    def audited(*transcripts, since=0):
        (tmp_path / "sessions").mkdir(exist_ok=True)
        for one in transcripts:
            one.write(tmp_path / "sessions")
        return figures.audit(sources.find([str(tmp_path / "sessions")]), since)

    return audited
