"""The files of runs whose tools are their user's: what a call changes in them is recorded, and a
run is told what others changed, by the policy of `files.changes`, before its next act.

No tool says what it does with files. A call's files are those that its arguments name, and what it
changed is how they look before and after it. On the memory's thread; `handlers` and the turn loop
call it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from typing import Any

from orchestrator.engines.protocol import Call
from orchestrator.files.changes import Changes
from orchestrator.files.look import look
from orchestrator.files.seen import RunFiles
from orchestrator.files.touch import GREP, LONGEST, Touch, paths_in
from orchestrator.prompts import render
from orchestrator.run_store.store import RunStore
from orchestrator.sessions.session import Session
from orchestrator.tools.calls import texts
from synapse.agent_memory import AgentMemory
from synapse.errors import SynapseError
from synapse.model.agents import Agent
from synapse.model.entry import Entry
from synapse.view.block import Block

HELD = "Not called yet: a file that it names has changed since you saw it. Call it again to go on."
LONGEST_PATH = 4_096
MOST = 20  # files of one call that are looked at


class ChangedFiles:
    """The files of one supervisor's sessions."""

    def __init__(self, run_store: RunStore, sessions: Mapping[str, Session]) -> None:
        self.run_store, self.sessions, self.store = run_store, sessions, run_store.store
        self.folder = os.path.dirname(run_store.store.root or "")
        self.trees: MutableMapping[str, str] = {}
        self.changes: Changes[RunFiles] = Changes(self)

    def add(self, session: Session) -> None:
        """Take up where the files lie that a session has seen in an earlier process."""
        self.trees.update(session.conversation.files.get("trees", {}))

    # -- around a call -----------------------------------------------------------------------------

    def before(self, session: Session, call: Call) -> tuple[str, dict[str, Any]]:
        """Return what stands in the place of a call that may change a file, where others changed
        that since the run saw it or was last asked; nothing where the call is to be made.
        """
        files, touch = session.files, self._touch(call)
        try:
            files.untold += self.changes.before(files, touch)
            if touch.kind == "read":
                # what is changed while it is read may not be in its result
                looks = {file.key: look(file.full) for _, file in self.changes.named(touch)}
                files.looks[call.id] = looks
                return "", {}
        except SynapseError:
            return "", {}  # the memory is not to be had: the tool is
        keys = {file.key for _, file in self.changes.named(touch)}
        if GREP.match(touch.text) or not keys & files.unread:
            return "", {}
        files.marks.pop(touch.call, None)
        text, fields = self._tell(session)
        return f"{HELD}\n{text}", fields

    def after(self, session: Session, call: Call, failed: bool = False) -> dict[str, Any]:
        """Record what a call changed, and return what is recorded of it beside its result."""
        files = session.files
        try:
            for key, earlier in files.looks.pop(call.id, {}).items():
                read = 0 if failed else self.store.clock()
                files.see(key, earlier.digest, earlier.status, read)
            touch = self._touch(call)._replace(failed=failed)
            files.untold += self.changes.news(files, None if touch.kind == "read" else touch)
            files.marks.pop(touch.call, None)
        except SynapseError:
            return {}
        # what is still to be told is recorded with its text
        return {} if files.untold else self._recorded(files)

    def text(self, session: Session) -> tuple[str, dict[str, Any]]:
        """Return what a run is told before its next turn, and what is recorded with that."""
        files = session.files
        try:
            files.untold += self.changes.news(files)
        except SynapseError:
            return "", {}
        text, fields = self._tell(session) if files.untold else ("", {})
        files.unread.clear()
        return text, fields

    def _tell(self, session: Session) -> tuple[str, dict[str, Any]]:
        """Return the text of what a run is to be told, and what is recorded with it."""
        files = session.files
        blocks, files.untold = files.untold, []
        ids, files.given = files.given, []
        fields = {**self._recorded(files), **({"pointed": ids} if ids else {})}
        return self._rendered(files, blocks) if blocks else "", fields

    def _recorded(self, files: RunFiles) -> dict[str, Any]:
        """Return the field of a step that says what a run has come to know of files."""
        values = files.take_unrecorded()
        trees = {key.partition(" ")[0] for key in values["seen"]}
        values["trees"] = {tree: self.trees[tree] for tree in sorted(trees)}
        return {"files": values} if values["seen"] or values["told"] else {}

    def _rendered(self, files: RunFiles, blocks: list[Block]) -> str:
        run_store = self.run_store
        return render.found(blocks, self.reader(files), run_store.secret, run_store.templates)

    def _touch(self, call: Call) -> Touch:
        """Return what a call has to do with files: it reads those that are all that it names, and
        may change them where it says more.
        """
        folder, values = os.getcwd(), [*texts(call.arguments)]
        lines = [value.partition("\n")[0] for value in values]
        short = [value for value in values if len(value) <= LONGEST_PATH and "\n" not in value]
        paths = dict.fromkeys([*short, *(path for line in lines for path in paths_in(line))])
        names_files = all(os.path.isfile(os.path.join(folder, value)) for value in values)
        is_read = bool(values) and names_files
        text = "\n".join(values)[:LONGEST]
        kind = "read" if is_read else "run"
        return Touch(kind, tuple(paths)[:MOST], (), text, call.id, folder, keep=True)

    # -- what the policy asks of runs --------------------------------------------------------------

    def reader(self, files: RunFiles) -> Agent:
        """Return the agent of a run as it reads there."""
        run = self.sessions[files.run].run
        return self.run_store.agent(run.agent).joined(run.project)

    def agent_memory(self, files: RunFiles) -> AgentMemory:
        """Return the memory as that agent has it."""
        return self.run_store.agent_memory(self.sessions[files.run].run)

    def is_own(self, files: RunFiles, run: str | None) -> bool:
        """Tell whether a run is this one, or below it."""
        return self.run_store.runs.is_below(run, files.run)

    def pass_doubts(self, source: str, to: str) -> None:
        """Limit a run by what limits another one, whose words it was told."""
        one, other = self.run_store.runs.get(source), self.run_store.runs.get(to)
        if one is not None and other is not None:
            doubts = self.run_store.agent_memory(one).access.doubts()
            self.run_store.agent_memory(other).access.noticed_ids(doubts)

    def note_given(self, files: RunFiles, entry: Entry) -> None:
        """Note that a run was given the words of an entry: it does not get it as news."""
        session = self.sessions[files.run]
        self.agent_memory(files).access.noticed([entry])
        session.seen.add(entry.id)
        session.inbox.pop(entry.id, None)
        files.given.append(entry.id)
