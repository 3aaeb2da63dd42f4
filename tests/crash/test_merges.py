"""Two clones that both wrote, merged with git itself: every entry that was acknowledged on a merged
side is there once, as it was written, and what refers to it refers to it still.

`Team` plays random histories on real repositories and keeps its own account of what must be where;
`faults` compares.
"""

import errno
import os
import random
import shutil
import time
from collections import Counter

import pytest

import synapse
from synapse.consolidate import undo
from synapse.errors import StoreCorrupt
from synapse.exchange import everything, merge_in
from synapse.log import merge as merging
from synapse.mail.mailbox import Mail
from synapse.model.records import filings
from synapse.testing import FrozenClock
from tests.crash.lives import begin
from tests.git import git

AGENTS = ("ann", "bob")
PLACES = ("api/x", "api/y", "team/z")
CLONES = 2
SHORT, TURNS = 10, 8  # histories in every run; the soak plays five hundred longer ones


def commit(root):
    git(root, "add", "-A")
    git(root, "commit", "-qm", "more", "--allow-empty")


def opened(root):
    mem = synapse.open(str(root))
    mem.store.index.say = lambda text: None
    return mem


def founded(folder):
    """A repository with a workspace that has its agents."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    root = folder / "shared-memory"
    with synapse.init(str(root)) as mem:
        for agent in AGENTS:
            mem.register(synapse.Agent(agent, read=["*"], write=["*"]))
    commit(root)
    return root


@pytest.fixture(scope="module")
def clones(tmp_path_factory):
    """Return a folder of clones of one repository, to be copied, each on a branch of its own."""
    folder = tmp_path_factory.mktemp("clones")
    roots = [founded(folder / "0")]
    for number in range(1, CLONES):
        git(folder, "clone", "-q", str(folder / "0"), str(folder / str(number)))
        roots.append(folder / str(number) / "shared-memory")
    for number, root in enumerate(roots):
        git(root, "checkout", "-qb", f"b{number}")
    return folder


class Team:
    """Copies of `clones`. `facts` holds what every token is; `held` which of them each
    working copy must have, `kept` each commit.
    """

    def __init__(self, clones, folder, seed):
        self.random = random.Random(seed)
        self.count = 0
        self.facts, self.acts = {}, {}
        shutil.copytree(clones, folder)
        self.roots = [folder / str(number) / "shared-memory" for number in range(CLONES)]
        self.held = [set() for _ in self.roots]
        self.kept = {f"b{number}": set() for number in range(CLONES)}
        self.branches = [f"b{number}" for number in range(CLONES)]

    def token(self):
        self.count += 1
        return f"t{self.count}"

    # -- writing -----------------------------------------------------------------------------------

    def write(self, which, times):
        with opened(self.roots[which]) as mem:
            for _ in range(times):
                self.act(mem, self.held[which])

    def act(self, mem, held):
        choice = self.random.choice
        me = mem.as_agent(choice(AGENTS))
        known = {entry.body: entry for entry in everything(mem.store) if entry.body in held}
        kind = choice(
            ("entry", "entry", "entry", "message", "resolve", "archive", "once", "react", "shown")
        )
        token = self.token()
        if kind in ("entry", "once") or not known:
            about = self.random.sample(sorted(known), min(len(known), self.random.randrange(3)))
            own = [
                each
                for each in about[:1]
                if known[each].kind == "entry" and known[each].author == me.id
            ]
            supersedes = own and self.random.random() < 0.3
            entry = me.append(
                token, choice(PLACES), priority=choice(("info", "important", "critical")), ttl="never",
                related=[known[each].id for each in about], tags=[f"tag-{token}"],
                supersedes=known[own[0]].id if supersedes else None, once=token if kind == "once" else None,
            )  # fmt: skip
            self.facts[token] = self.note(
                entry, {"related": about, "supersedes": own if supersedes else []}
            )
            held.add(token)
        elif kind == "message":
            sent = Mail(me).send(AGENTS[me.id == AGENTS[0]], token)
            entry = mem.store.entry(sent.id)
            self.facts[token] = self.note(entry, {})
            held.add(token)
        else:
            self.ruling(mem, me, kind, token, known, held)

    def ruling(self, mem, me, kind, token, known, held):
        body = self.random.choice(sorted(known))
        entry = known[body]
        if kind == "resolve" and entry.priority == "critical" and entry.kind == "entry":
            me.resolve(entry.id, token)
        elif kind == "archive" and not entry.archived:
            me.archive([entry.id], reason=token)
        elif kind == "shown":
            me.read(mark=True)
            return
        else:
            return
        self.acts[token] = (kind, me.id, body)
        held.add(token)

    def note(self, entry, refs):
        refs = {name: sorted(tokens) for name, tokens in refs.items()}
        return (
            entry.author,
            entry.namespace,
            entry.priority,
            entry.kind,
            entry.timestamp,
            entry.expires,
            refs,
        )

    # -- git ---------------------------------------------------------------------------------------

    def commit(self, which):
        commit(self.roots[which])
        self.kept[self.branches[which]] = set(self.held[which])

    def checkout(self, which, branch):
        self.commit(which)
        git(self.roots[which], "checkout", "-q", branch)
        self.branches[which] = branch
        self.held[which] = set(self.kept[branch])

    def branch(self, which):
        self.commit(which)
        name = f"b{len(self.kept)}"
        git(self.roots[which], "checkout", "-qb", name)
        self.branches[which] = name
        self.kept[name] = set(self.held[which])

    def merge(self, which, other, branch):
        """Merge another clone's branch, or one of our own, as git does it; then make it one, by
        hand or by writing.
        """
        self.commit(which)
        root = self.roots[which]
        if other != which:
            self.commit(other)
            git(
                root,
                "fetch",
                "-q",
                str(self.roots[other].parent),
                f"+refs/heads/{branch}:refs/heads/from",
            )
        git(root, "merge", "-q", "--no-edit", "from" if other != which else branch)
        self.held[which] |= self.kept[branch]
        with opened(root) as mem:
            if self.random.random() < 0.3:
                mem.as_agent("operator").read()
            if self.random.random() < 0.3:
                written = set()
                self.act(mem, written)
                self.held[which] |= written
            merge_in(mem.store, None)
            found = self.faults(mem, self.held[which])
            assert found == [], found
        self.commit(which)

    def turn(self):
        which = self.random.randrange(len(self.roots))
        kind = self.random.choice(
            ("write", "write", "write", "branch", "checkout", "pull", "pull", "merge", "merge")
        )
        if kind == "write":
            self.write(which, self.random.randint(1, 4))
        elif kind == "branch" and len(self.kept) < 6:
            self.branch(which)
        elif kind in ("checkout", "merge"):
            own = git(self.roots[which], "branch", "--format=%(refname:short)").split()
            branch = self.random.choice(
                [name for name in own if name != "from" and name in self.kept]
            )
            if kind == "checkout":
                self.checkout(which, branch)
            else:
                self.merge(which, which, branch)
        elif kind == "pull":
            other = (which + 1) % len(self.roots)
            self.merge(which, other, self.branches[other])

    # -- the account -------------------------------------------------------------------------------

    def faults(self, mem, held):
        """What is not as it must be: each a word of what, and of which token."""
        mem.store.refresh(whole=True)
        entries = everything(mem.store)
        by_id = {entry.id: entry for entry in entries}
        found, tokens = [], Counter(entry.body for entry in entries)
        wanted = {token for token in held if token in self.facts}
        found += [("lost", token) for token in sorted(wanted - tokens.keys())]
        found += [("stray", token) for token in sorted(tokens.keys() - wanted)]
        found += [("twice", token) for token, count in tokens.items() if count > 1]
        for entry in entries:
            if entry.body in self.facts:
                refs = {"related": entry.related, "supersedes": entry.replaces}
                told = {
                    name: sorted(by_id[id].body if id in by_id else id for id in ids)
                    for name, ids in refs.items()
                }
                known = self.facts[entry.body]
                told = told if known[-1] else {}
                if self.note(entry, told) != known:
                    found.append(("altered", entry.body, self.note(entry, told), known))
                if entry.kind == "entry" and entry.tags != (f"tag-{entry.body}",):
                    found.append(("altered", entry.body))
        found += self.misplaced(mem, held, by_id)
        report = mem.verify()
        found += [("verify", *problem) for problem in report.problems]
        digest = mem.digest()
        if mem.rebuild().digest != digest:
            found.append(("digest",))
        return found

    def misplaced(self, mem, held, by_id):
        """Rulings that are lost, doubled, or speak of another entry than they did."""
        seen = Counter()
        for record in mem.audit():
            token = record.fields.get("note") or record.fields.get("reason")
            if token not in self.acts:
                continue
            ids = (
                [record.fields["entry"]]
                if record.kind == "resolve"
                else [id for id, _ in filings(record)]
            )
            seen[token] += 1
            if [(record.kind, record.by, by_id[id].body if id in by_id else id) for id in ids] != [
                self.acts[token]
            ]:
                yield ("misdirected", token)
        wanted = {token for token in held if token in self.acts}
        yield from (("lost act", token) for token in wanted - seen.keys())
        yield from (("stray act", token) for token in seen.keys() - wanted)
        yield from (("act twice", token) for token, count in seen.items() if count > 1)


def play(clones, folder, seed, turns):
    team = Team(clones, folder, seed)
    for _ in range(turns):
        team.turn()
    for which in range(len(team.roots)):
        team.merge(which, 1 - which, team.branches[1 - which])
    assert team.held[0] == team.held[1] or team.held[1] >= team.held[0]
    shutil.rmtree(folder)


def many(clones, folder, count, turns):
    for seed in range(count):
        play(clones, folder / str(seed), seed, turns)


def test_random_histories_are_merged_whole(clones, tmp_path):
    many(clones, tmp_path, SHORT, TURNS)


@pytest.mark.soak
def test_five_hundred_random_histories_are_merged_whole(clones, tmp_path):
    for seed in range(1_000, 1_500):
        play(clones, tmp_path / str(seed), seed, 20)


# -- the account can fail --------------------------------------------------------------------------


def dropping(monkeypatch):
    """A merge that leaves every third record out."""
    take, count = merging._Merge._take, [0]

    def wrong(self, raw, record, way):
        count[0] += 1
        if count[0] % 3:
            take(self, raw, record, way)

    monkeypatch.setattr(merging._Merge, "_take", wrong)


def doubling(monkeypatch):
    """A merge that does not know what it has appended before."""
    monkeypatch.setattr(merging, "_identity", lambda raw, record: merging.chain_of(raw))


def misdirecting(monkeypatch):
    """A merge that gives fresh ids, and leaves the references as they were."""
    monkeypatch.setattr(merging, "_mapped", lambda value, way, name="": value)


@pytest.mark.parametrize("wrong", [dropping, doubling, misdirecting])
def test_a_wrong_merge_is_found(clones, tmp_path, monkeypatch, wrong):
    wrong(monkeypatch)
    with pytest.raises(AssertionError, match=r"lost|twice|altered|misdirected|related"):
        many(clones, tmp_path, SHORT, TURNS)


# -- two sides -------------------------------------------------------------------------------------


def texts(root):
    with opened(root) as mem:
        return Counter(
            (e.body, e.author, e.namespace, e.priority, e.timestamp) for e in everything(mem.store)
        )


@pytest.fixture(scope="module")
def both(clones, tmp_path_factory):
    """Return two clones, to be copied. Both wrote an entry under the same id, a reference to it,
    and a ruling on it.
    """
    folder = tmp_path_factory.mktemp("two") / "repos"
    for which, root in enumerate(Team(clones, folder, 0).roots):
        with opened(root) as mem:
            me = mem.as_agent(AGENTS[which])
            first = me.append(f"first of {which}", f"api/{which}", priority="critical", ttl="30d")
            me.append(f"second of {which}", "team/z", related=[first.id])
            me.resolve(first.id, f"done by {which}")
            assert first.id.endswith("-001")
        commit(root)
    return folder


@pytest.fixture
def two(both, tmp_path):
    return Team(both, tmp_path / "repos", 0)


def pulled(team, which):
    root = team.roots[which]
    git(
        root,
        "pull",
        "-q",
        "--no-rebase",
        "--no-edit",
        str(team.roots[1 - which].parent),
        f"b{1 - which}",
    )
    return root


def test_git_itself_never_stops(two):
    root = pulled(two, 0)
    assert git(root, "status", "--short") == ""
    with opened(root) as mem:
        notes = []
        mem.store.index.say = notes.append
        mem.store.refresh(whole=True)
        assert [entry.body for entry in everything(mem.store)] == ["first of 0", "second of 0"]
        assert "two histories" in notes[0]
        assert [problem.where for problem in mem.verify().problems][:1] == ["journal"]
        told = merge_in(mem.store, None)
        assert told.records == 3
        assert len(told.ids) == 2
        by_body = {entry.body: entry for entry in everything(mem.store)}
        assert sorted(by_body) == ["first of 0", "first of 1", "second of 0", "second of 1"]
        for which in "01":
            assert by_body[f"second of {which}"].related == (by_body[f"first of {which}"].id,)
            assert (
                mem.as_agent("operator").fate(by_body[f"first of {which}"].id).reason == "resolved"
            )
        assert mem.verify().ok
        assert merge_in(mem.store, None).records == 0


def test_both_ways_give_the_same_entries(two):
    for which in (0, 1):
        root = pulled(two, which) if which == 0 else two.roots[1]
        if which:
            with opened(root) as mem:
                merge_in(mem.store, str(two.roots[0]))
        else:
            with opened(root) as mem:
                merge_in(mem.store, None)
    assert texts(two.roots[0]) == texts(two.roots[1])


def test_the_same_merge_is_the_same_bytes(two, tmp_path):
    root = pulled(two, 0)
    shutil.copytree(root.parent, tmp_path / "copy")
    lines = []
    for each in (root, tmp_path / "copy" / "shared-memory"):
        with opened(each) as mem:
            merge_in(mem.store, None)
        lines.append((each / "journal" / "000000000001.jsonl").read_bytes())
    assert lines[0] == lines[1]


def test_a_writer_merges_before_it_writes(two):
    root = pulled(two, 0)
    with opened(root) as mem:
        new = mem.as_agent("ann").append("third of 0", "api/0")
        assert new.body == "third of 0"
        mem.store.refresh()
        assert len(everything(mem.store)) == 5
        mem.store.refresh(whole=True)
        assert mem.verify().ok


def test_a_merge_may_end_where_another_branch_went_on(two):
    """The same merge was made before, and written after; nobody looked at the journal in
    between.
    """
    root = pulled(two, 0)
    git(root, "branch", "before")
    with opened(root) as mem:
        merge_in(mem.store, None)
        mem.as_agent("ann").append("third of 0", "api/0")
        mem.store.refresh()
    commit(root)
    git(root, "checkout", "-q", "before")
    with opened(root) as mem:
        assert merge_in(mem.store, None).records == 3
        assert len(everything(mem.store)) == 4
        assert mem.verify().ok


def test_another_workspace_is_merged_without_git(two, tmp_path):
    ours, theirs = two.roots
    with opened(theirs) as mem:
        export = tmp_path / "theirs.jsonl"
        export.write_text("".join(mem.export()), encoding="utf-8")
    for source, expected in ((theirs, 3), (export, 0), (theirs, 0)):
        with opened(ours) as mem:
            assert merge_in(mem.store, str(source)).records == expected
            assert len(everything(mem.store)) == 4
            mem.store.refresh(whole=True)
            assert mem.verify().ok
    size = (ours / "journal" / "000000000001.jsonl").stat().st_size
    with opened(ours) as mem:
        merge_in(mem.store, str(theirs))
    assert (ours / "journal" / "000000000001.jsonl").stat().st_size == size


def test_a_stranger_workspace_is_merged_whole(two, tmp_path):
    """It shares no record: who believes it has its agents come along."""
    with synapse.init(str(tmp_path / "other")) as mem:
        mem.register(synapse.Agent("cyd", read=["*"], write=["*"]))
        mem.as_agent("cyd").append("from outside", "api/x")
    with opened(two.roots[0]) as mem:
        with pytest.raises(synapse.Conflict, match="cyd"):
            merge_in(mem.store, str(tmp_path / "other"))
        merged = merge_in(mem.store, str(tmp_path / "other"), believe=True)
        assert merged.records == 2
        mem.store.refresh(whole=True)
        assert {"from outside", "first of 0"} <= {entry.body for entry in everything(mem.store)}
        assert "cyd" in {agent.id for agent in mem.agents()}
        assert mem.verify().ok


def test_what_expired_before_it_was_merged_is_never_unread(tmp_path):
    """It was written for an hour, and comes in a day later: by then nobody is told of it."""
    clock, roots = FrozenClock(), [tmp_path / "ours", tmp_path / "theirs"]
    with synapse.init(str(roots[0]), clock=clock) as mem:
        for agent in AGENTS:
            mem.register(synapse.Agent(agent, read=["*"], write=["*"]))
    shutil.copytree(roots[0], roots[1], ignore=shutil.ignore_patterns(".index"))
    with synapse.open(str(roots[1]), clock=clock) as mem:
        mem.as_agent("ann").append("for an hour", "api/x", ttl="1h")
        mem.as_agent("ann").append("for good", "api/x", ttl="never")
    clock.advance("1d")
    with synapse.open(str(roots[0]), clock=clock) as mem:
        mem.as_agent("ann").append("of today", "api/x")
        assert mem.as_agent("bob").unread() == 1
        merge_in(mem.store, str(roots[1]))
        assert len(mem.as_agent("bob").read()) == mem.as_agent("bob").unread() == 2
        mem.rebuild()
        assert mem.as_agent("bob").unread() == 2


@pytest.mark.parametrize("name", ["rename", "fdatasync"])
def test_a_merge_that_the_disk_cuts_short_says_so(two, monkeypatch, name):
    def fails(*args, **more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    ours, theirs = two.roots
    with opened(ours) as mem:
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fails)
            with pytest.raises(synapse.StoreError, match="No space left"):
                merge_in(mem.store, str(theirs))
        merge_in(mem.store, str(theirs))
        mem.store.refresh(whole=True)
        assert len(everything(mem.store)) == 4
        assert mem.verify().ok


def test_a_text_that_was_changed_is_not_merged(two, tmp_path):
    path = two.roots[1] / "journal" / "000000000001.jsonl"
    path.write_bytes(path.read_bytes().replace(b"first of 1", b"other of 1"))
    with (
        opened(two.roots[0]) as mem,
        pytest.raises(synapse.errors.InvalidEntry, match="not what was written"),
    ):
        merge_in(mem.store, str(two.roots[1]))


def test_a_line_that_follows_from_nothing_is_not_merged(two):
    path = two.roots[1] / "journal" / "000000000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    with opened(two.roots[0]) as mem, pytest.raises(StoreCorrupt, match="follows from no line"):
        merge_in(mem.store, str(two.roots[1]))


CHANGING = (
    "open",
    "write",
    "pwrite",
    "ftruncate",
    "truncate",
    "link",
    "unlink",
    "rename",
    "fdatasync",
    "fsync",
)


class Killed(BaseException):
    """The end of the process."""


def test_a_merge_that_dies_anywhere_is_whole_or_absent(two, tmp_path, monkeypatch):
    """At the n-th call that changes the disk; whoever comes next brings it to the same end."""
    root = pulled(two, 0)
    with opened(root) as mem:
        mem.as_agent("operator").read()
    shutil.copytree(root, tmp_path / "whole")
    with opened(tmp_path / "whole") as mem:
        merge_in(mem.store, None)
    wanted, place, died = texts(tmp_path / "whole"), tmp_path / "killed", True
    at = 0
    while died:
        at += 1
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(root, place)
        left = [at]

        def dying(name, real, left=left):
            def call(*args, **kwargs):
                left[0] -= 1
                if left[0] <= 0:
                    raise Killed(name)
                return real(*args, **kwargs)

            return call

        mem = opened(place)
        with monkeypatch.context() as patched:
            for name in CHANGING:
                patched.setattr(os, name, dying(name, getattr(os, name)))
            try:
                merge_in(mem.store, None)
                died = False
            except Killed:
                died = True
        mem.close()
        with opened(place) as mem:
            mem.store.refresh()
            assert len(everything(mem.store)) in (2, 4)
            merge_in(mem.store, None)
            mem.store.refresh(whole=True)
            assert mem.verify().ok, at
        assert texts(place) == wanted, at
    assert at > 10


def test_a_killed_process_leaves_no_half_merge(two, tmp_path):
    root = pulled(two, 0)
    code = (
        "import sys, synapse; from synapse.exchange import merge_in;"
        " merge_in(synapse.open(sys.argv[1]).store, None)"
    )
    for number in range(6):
        place = tmp_path / f"killed{number}"
        shutil.copytree(root, place)
        life = begin("-c", code, place)
        time.sleep(0.01 * number)
        life.kill()
        life.communicate()
        with opened(place) as mem:
            merge_in(mem.store, None)
            assert len(everything(mem.store)) == 4
            assert mem.verify().ok


def test_an_undo_of_the_other_side_lifts_what_it_lifted_there(tmp_path):
    """Its numbers are those of its own history, and ours has other records there."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with synapse.init(str(ours)) as mem:
        mem.register(synapse.Agent("ann"))
        mem.as_agent("ann").append("base", "projects/x")
    shutil.copytree(ours, theirs)
    with opened(ours) as mem:
        ann = mem.as_agent("ann")
        for n in range(3):
            ann.append(f"filler {n}", "projects/x")
        for n in (1, 2):
            ann.append(f"ours {n}", "projects/x", topic="ours")
    with opened(theirs) as mem:
        ann = mem.as_agent("ann")
        for n in (1, 2):
            newest = ann.append(f"theirs {n}", "projects/y", topic="theirs")
        undo(mem, str(newest.seq))
        assert sorted(entry.body for entry in ann.read()) == ["base", "theirs 1"]
    with opened(ours) as mem:
        merge_in(mem.store, str(theirs))
        bodies = sorted(entry.body for entry in mem.as_agent("ann").read())
        assert bodies == ["base", "filler 0", "filler 1", "filler 2", "ours 2", "theirs 1"]
        act = next(record for record in mem.store.log.since(0) if record.kind == "undo")
        assert mem.store.log.at(act.fields["acts"][0]).text.endswith("theirs 2\n")
        assert act.fields["what"] == str(act.fields["acts"][0])


def test_a_torn_line_is_sealed_before_another_history_follows_it(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for root in (ours, theirs):
        with synapse.init(str(root)) as mem:
            mem.register(synapse.Agent("ann"))
            mem.as_agent("ann").append(f"of {root.name}", "projects/x")
    with open(ours / "journal" / "000000000001.jsonl", "ab") as file:
        file.write(b'{"chain":"half a li')
    with opened(ours) as mem:
        merge_in(mem.store, str(theirs), believe=True)
        assert mem.verify().problems == ()
        assert sorted(entry.body for entry in mem.as_agent("ann").read()) == [
            "of ours",
            "of theirs",
        ]
