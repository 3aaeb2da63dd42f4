"""Days and nights of a team whose texts hold secrets and personal data, and whose operator redacts
some: all it leaves behind is looked through, byte by byte. Holds no test.

Everything that a person's machine keeps lies below one folder: the workspace, the person's own
folder, temporary files, exports, snapshots and what was restored of them.
"""

from __future__ import annotations

import base64
import gc
import os
import random
import shutil
import tempfile
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Scripted
from synapse import backup, cli
from synapse.consolidate import run_nightly
from synapse.errors import PersonalData
from synapse.integrity.redaction import redact
from synapse.log import adopt as drop_box
from synapse.mail.mailbox import Mail
from synapse.model.agents import Agent
from synapse.model.clock import day
from synapse.testing import FrozenClock
from synapse.trust.workspace_keys import WorkspaceKeys
from tests.privacy import made

STAFF = ("eng-a", "eng-b", "eng-c")
PLACES = ("api/users", "api/orders", "decisions/data", "status/shop")
WORDS = "harbour otter quay heron granite amber willow cedar falcon meadow copper ivory".split()
# kinds whose values may be in any text: their line
COMMON = ("health", "salary", "account", "passport")
HEAD = (
    "---\nfrom: eng-a\ntimestamp: 2026-02-01T01:00:00Z\npriority: info\nnamespace: api/users\n---\n"
)


class Size(NamedTuple):
    """How much of each, over how many nights; every so many nights a snapshot is restored."""

    nights: int
    personal: int
    secrets: int
    redactions: int
    restores: int


class Season:
    """A workspace, what was put into it and must not be there, and what is found of that."""

    def __init__(self, folder, size, seed=1):
        self.folder, self.size, self.draw = folder, size, random.Random(seed)
        self.root, self.out = folder / "ws", folder / "out"
        self.clock = FrozenClock("2026-02-01T08:00:00Z")
        self.made_up = iter(made.personal(size.personal, seed))
        self.secret = iter(made.secrets(size.secrets, seed))
        # texts that nobody may find
        self.refused, self.sealed, self.masked = [], [], []
        self.told, self.redacted = {}, {}  # texts by their entries
        self.said = ""  # the last text that held a secret
        self.found, self.looks, self.read = [], 0, 0
        self.out.mkdir()
        self.memory = synapse.init(str(self.root), clock=self.clock)
        with open(self.root / "synapse.yaml", "a", encoding="utf-8") as file:
            file.write("privacy: {personal: refuse}\n")
        self.memory.store.refresh(whole=True)
        for id in STAFF:
            self.memory.register(Agent(id, "engineer", read=("*",), write=("*",)))
        for id in STAFF[:2]:
            WorkspaceKeys(self.memory.store).new(id)
        self.other = synapse.open(str(self.root), clock=self.clock)

    def _open(self):
        self.memory, self.other = (synapse.open(str(self.root), clock=self.clock) for _ in range(2))

    def close(self):
        self.other.close()
        self.memory.close()

    def play(self, until=None):
        """Play all days and nights; return what was found where nothing may be. Ends with the
        night that finds it at this place, if one is named.
        """
        for night in range(self.size.nights):
            self._write(night)
            self._redact(night)
            self._show(night)
            self._keep(night)
            self.clock.advance("16h")
            run_nightly(self.memory, day(self.clock()), self.clock())
            self._look(night, self.redacted.values())
            self._again()
            self.clock.advance("8h")
            if until and any(until in str(what) for what in self.found):
                return self.found
        self._look("the end", self._all())
        report = self.memory.verify()
        self.found += [("verify", problem) for problem in report.problems]
        return self.found

    def _again(self):
        """Begin all processes anew: nothing is in files that they had open and have no name."""
        self.close()
        gc.collect()
        self.found += [("open", name) for name, _ in removed(self.folder)]
        self._open()

    # -- what is written ---------------------------------------------------------------------------

    def _share(self, all):
        """Return how many of so many belong to one night, rounded up."""
        return -(-all // self.size.nights)

    def _write(self, night):
        me, mail = self.memory.as_agent("eng-a"), Mail(self.memory.as_agent("eng-a"))
        for kind, text, value in islice(self.made_up, self._share(self.size.personal)):
            self._personal(me, mail, kind, text, value)
        for number, (_, text, value) in enumerate(
            islice(self.secret, self._share(self.size.secrets))
        ):
            self.masked.append(value)
            self.said = text
            self._secret(number, me, mail, text)
        for _ in range(self._share(self.size.redactions)):
            text = self._story()
            id = me.append(text, self.draw.choice(PLACES)).id
            self.told[id] = text
        for n in range(4):  # what nights merge
            author = self.memory.as_agent(self.draw.choice(STAFF))
            author.append(f"The users endpoint takes {80 + n % 2} ms", "api/users")
        self.memory.store.refresh(whole=True)

    def _personal(self, me, mail, kind, text, value):
        """Say it in public, where it is refused, or sealed."""
        if kind in COMMON:
            value = next(line for line in text.splitlines() if value in line)
        if self.draw.random() < 0.4:
            me.append(text, "api/users", scope="encrypted", to="eng-b")
            self.sealed.append(value)
            return
        try:
            if self.draw.random() < 0.3:
                mail.send("eng-b", text, subject="about it")
            else:
                me.append(text, "api/users")
            self.found.append(("not refused", kind))
        except PersonalData as error:
            if value in str(error):
                self.found.append(("repeated in the error", kind))
        self.refused.append(value)

    def _secret(self, number, me, mail, text):
        way = number % 5
        if way == 0:
            mail.send("eng-b", text, subject="keys")
        elif way == 1:
            self._drop(f"drop-{len(self.masked)}.md", text)
        elif way == 2:
            id = me.append("It is over.", "status/shop").id
            me.archive([id], reason=text)
        else:
            me.append(text, self.draw.choice(PLACES), tags=("deploy",))

    def _drop(self, name, text):
        (self.root / "entries/api/users").mkdir(parents=True, exist_ok=True)
        (self.root / "entries/api/users" / name).write_text(f"{HEAD}{text}\n")
        before, drop_box.SETTLED = drop_box.SETTLED, -1
        try:
            self.memory.store.refresh(whole=True)
            self.memory.store.refresh(whole=True)
        finally:
            drop_box.SETTLED = before

    def _story(self):
        """Return a text that is nowhere else: two lines and a word of its own."""
        words = " ".join(self.draw.choices(WORDS, k=9))
        own = "".join(self.draw.choices("bcdfghjklmnpqrstvwxz", k=14))
        return f"The plan: {words} «ja».\nIts name: {own} {self.draw.random()}"

    # -- what is done with it ----------------------------------------------------------------------

    def _redact(self, night):
        """Take texts out of yesterday and of any day before, and what repeats them."""
        last = night == self.size.nights - 1
        count = len(self.told) if last else self._share(self.size.redactions)
        older = [*self.told][: None if last else -1]
        for id in self.draw.sample(older, min(count, len(older))):
            if id not in self.told:
                continue  # it repeated one of them
            text = self.redacted[id] = self.told[id]
            self.told = {each: said for each, said in self.told.items() if said != text}
            done = redact(self.memory.store, id, "under embargo")
            for repeat in done.repeated:
                redact(self.memory.store, repeat, "it repeats that")
            self.found += [("named", n) for n in {*done.repeated} & self.told.keys()]
            self.found += [("a record repeats it", seq) for seq in done.records]

    def _show(self, night):
        """Look, search and run, by those who may and by who has it open."""
        shown = [*self.told.values()] or ["nothing"]
        for memory in (self.memory, self.other):
            for id in STAFF[1:]:
                me = memory.as_agent(id)
                me.briefing(budget=2_000, about=self.draw.choice(shown))
                me.search(self.draw.choice(WORDS), limit=20)
                me.read(limit=30)
        root = str(self.root)
        cli.main(["--root", root, "view", "--agent", "eng-b", "--write"])
        engine = Scripted(lambda seen: f"It is done.\n\n{shown[-1]}\n{self.said}")
        task = f"Go on with what the memory says. {self.said}"
        with Supervisor(self.memory, engine=engine) as supervisor:
            supervisor.run(Task(task, "eng-c"))
        for entry in self.memory.as_agent("eng-b").read(limit=None, since="1m"):
            if entry.author == "eng-c" and shown[-1].splitlines()[0] in entry.body:
                self.told[entry.id] = shown[-1]

    def _keep(self, night):
        """Export and keep a snapshot; now and then one is restored and looked through, too."""
        export = self.out / f"export-{night}.jsonl"
        export.write_text("".join(self.memory.export()))
        (self.out / "hosted.jsonl").write_text("".join(self.memory.export("A")))
        snapshot = backup.take(self.memory.store, str(self.out / "snapshots"))
        gone = [*self.redacted.values()]
        self.found += self._traces(export, gone)
        self.found += self._traces(snapshot.path, gone)
        if (night + 1) % self.size.restores == 0:
            again = self.out / f"restored-{night}"
            with synapse.init(str(again), clock=self.clock) as memory:
                backup.restore(memory.store, snapshot.path)
                memory.as_agent("eng-b").search("plan")
                report = memory.verify()
                self.found += [("restored", problem) for problem in report.problems]
            self.found += self._traces(again, gone)

    # -- what is left ------------------------------------------------------------------------------

    def _all(self):
        return [*self.refused, *self.sealed, *self.masked, *self.redacted.values()]

    def _look(self, night, redacted):
        """Look through what is there at the end of a night; all of it at the very end.

        What was kept elsewhere before a redaction has the text: each was looked through when it
        was made, and is not asked for that again.
        """
        self.other.as_agent("eng-b").read()
        for place in (self.root, self.folder / "home", self.folder / "tmp"):
            self.found += self._traces(place, redacted)
        if night != "the end":
            return
        forever = [*self.refused, *self.sealed, *self.masked]
        self.found += self._traces(self.folder, forever + encoded(self.sealed))

    def _traces(self, place, texts):
        self.looks += 1
        self.read += sum(p.stat().st_size for p in files(place))
        return traces(place, texts)


def files(place):
    """Return the files at a place, or the one that it is."""
    place = Path(place)
    return [place] if place.is_file() else [p for p in place.rglob("*") if p.is_file()]


def encoded(texts):
    """Return texts as base64 has them in the middle of others, wherever they begin."""
    found = []
    for text in texts:
        for shift in range(3):
            raw = base64.b64encode(b"x" * shift + text.encode()).decode()
            found += [raw[4:-4]] if len(raw) > 16 else []
    return found


def traces(place, texts):
    """Return where a line of these texts is."""
    place = Path(place)
    if place.is_file():
        aside = tempfile.mkdtemp()
        try:
            shutil.copy(place, aside)
            return [(str(place), text) for _, text in made.plain_in(aside, texts)]
        finally:
            shutil.rmtree(aside)
    return [*made.plain_in(place, texts)]


def removed(place):
    """Yield the files below a folder that this process has open and that have no name any more."""
    for fd in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{fd}"
        try:
            name = os.readlink(path)
            if name.startswith(f"{place}/") and name.endswith(" (deleted)"):
                with open(path, "rb") as file:
                    yield name, file.read()
        except OSError:
            continue  # closed meanwhile, or a folder
