"""Two organisations exchange entries for seven nights, with a stranger in between."""

import json
import os
import random
import shutil
from contextlib import contextmanager

import pytest

import synapse
from synapse import bundles, cli
from synapse.bundles import Exported, export_bundle, import_bundle
from synapse.errors import InvalidQuery, NoKey, NotFound, NotTrusted
from synapse.model.agents import Agent
from synapse.testing import FrozenClock
from synapse.trust import decisions
from synapse.trust.workspace_keys import WorkspaceKeys

CAP = 30


class Organisation:
    """A workspace of its own, with a person's folder of its own, and one partner."""

    def __init__(self, name, path, patch, clock):
        self.name, self.path, self.home, self._patch = (
            name,
            path / name,
            path / f"{name}-home",
            patch,
        )
        self.home.mkdir()
        with self.here():
            self.mem = synapse.init(str(self.path), clock=clock)
            self.mem.register(Agent("boss", role="cto"))
            WorkspaceKeys(self.mem.store).new()
            self.key = WorkspaceKeys(self.mem.store).export_public()
        self.clock, self.written = clock, {}

    @contextmanager
    def here(self):
        with self._patch.context() as patch:
            patch.setenv("SYNAPSE_HOME", str(self.home))
            yield

    def knows(self, other, reads=("api/*",)):
        """Declare the other as a partner, which may read `api` and writes with little authority."""
        with self.here():
            writes = (f"partners/{other.name}/*",)
            self.mem.register(Agent(other.name, authority=CAP, read=reads, write=writes))
            with open(self.path / "synapse.yaml", "a", encoding="utf-8") as file:
                file.write(f"partners:\n  {other.name}:\n    key: {' '.join(other.key.split())}\n")
                file.write(f"    agent: {other.name}\n    namespace: partners/{other.name}\n")
            self.mem.close()
            self.mem = synapse.open(str(self.path), clock=self.clock)
            asked = decisions.asked(self.mem.store.settings, str(self.path))
            decisions.trust(str(self.path), asked, "2026-01-01")

    def write(self, body, namespace="api/users", **more):
        entry = self.mem.as_agent("boss").append(body, namespace, **more)
        self.written[entry.id] = entry
        return entry

    def export_bundle(self, to, since=None):
        """Return the lines of a bundle, and what it is."""
        with self.here():
            *lines, what = export_bundle(self.mem, to.name, since)
        assert isinstance(what, Exported)
        return lines, what

    def import_bundle(self, of, lines):
        with self.here():
            return import_bundle(self.mem, of.name, lines)

    def foreign(self, of):
        """Return what is here of the other's, by the id that it has there."""
        page = self.mem.as_agent("operator").read(author=of.name, limit=None)
        return {entry.id.replace(f"syn-{of.name}-", "syn-"): entry for entry in page}


@pytest.fixture
def pair(tmp_path, monkeypatch):
    clock = FrozenClock()
    ours, theirs = (Organisation(name, tmp_path, monkeypatch, clock) for name in ("ours", "theirs"))
    ours.knows(theirs)
    theirs.knows(ours)
    yield ours, theirs
    ours.mem.close(), theirs.mem.close()


def bodies(taken):
    assert not taken.problem
    return [entry.body for entry in taken.entries]


def test_what_a_partner_may_read_comes_as_text_from_outside(pair):
    ours, theirs = pair
    first = ours.write("Call /v2/users", priority="critical", tags=["users"], topic="users")
    ours.write("the price is 7", "status/prices")
    lines, what = ours.export_bundle(theirs)
    assert (what.entries, what.repeated) == (1, 0)
    assert "Call /v2" not in "".join(lines)
    (entry,) = theirs.import_bundle(ours, lines).entries
    assert entry.id == first.id.replace("syn-", "syn-ours-")
    assert (entry.author, entry.namespace) == ("ours", "partners/ours/api/users")
    assert (entry.body, entry.topic, entry.tags) == (first.body, "users", ("users", "by:boss"))
    assert (entry.trust, entry.authority) == ("outside", CAP)
    assert first.authority > CAP
    theirs.mem.as_agent("operator").vouch(entry.id)
    assert theirs.mem.store.entry(entry.id).trust == "reviewed"


def test_nothing_comes_twice_and_what_was_confirmed_is_not_handed_out_again(pair):
    ours, theirs = pair
    ours.write("one")
    lines, _ = ours.export_bundle(theirs)
    assert bodies(theirs.import_bundle(ours, lines)) == ["one"]
    assert (
        theirs.import_bundle(ours, lines).entries,
        theirs.import_bundle(ours, lines).present,
    ) == ([], 1)
    ours.write("two")
    again, what = ours.export_bundle(theirs)
    assert (what.entries, what.repeated) == (2, 1)
    assert ours.import_bundle(theirs, theirs.export_bundle(ours)[0]).confirmed
    again, what = ours.export_bundle(theirs)
    assert (what.entries, what.repeated) == (1, 1)  # the one that was never taken in had it
    assert bodies(theirs.import_bundle(ours, again)) == ["two"]
    assert ours.mem.verify().ok
    assert theirs.mem.verify().ok


def test_what_came_from_a_partner_is_not_handed_back_nor_on(pair, tmp_path, monkeypatch):
    ours, theirs = pair
    ours.write("ours alone")
    theirs.import_bundle(ours, ours.export_bundle(theirs)[0])
    with theirs.here():
        theirs.mem.register(Agent("ours", read=("*",), write=("partners/ours/*",)))
        for id in theirs.foreign(ours):
            theirs.mem.as_agent("operator").vouch(id.replace("syn-", "syn-ours-"))
    assert theirs.export_bundle(ours)[1].entries == 0


def test_a_successor_replaces_and_what_is_over_is_not_handed_out(pair):
    ours, theirs = pair
    old = ours.write("Call /v1/users", topic="users")
    theirs.import_bundle(ours, ours.export_bundle(theirs)[0])
    ours.write("Call /v2/users", topic="users", supersedes=old.id)
    ours.write("for an hour", ttl="1h")
    lines, _ = ours.export_bundle(theirs)
    ours.clock.advance("3h")
    taken = theirs.import_bundle(ours, lines)
    assert bodies(taken) == ["Call /v2/users"]
    assert [entry.body for entry in theirs.foreign(ours).values()] == ["Call /v2/users"]
    ours.write("last")
    assert bodies(theirs.import_bundle(ours, ours.export_bundle(theirs)[0])) == ["last"]


def test_what_the_partner_may_not_write_is_refused_and_the_rest_comes(pair):
    ours, theirs = pair
    ours.write("Call /v2/users")
    ours.write("Call /v2/carts", "api/carts")
    with theirs.here():
        writes = ("partners/ours/api/carts",)
        theirs.mem.register(Agent("ours", authority=CAP, read=("api/*",), write=writes))
    taken = theirs.import_bundle(ours, ours.export_bundle(theirs)[0])
    assert bodies(taken) == ["Call /v2/carts"]
    assert "may not write" in taken.refused[0]


# -- what is refused -------------------------------------------------------------------------------


def test_who_is_no_partner_or_was_not_accepted_or_has_no_key(pair, tmp_path):
    ours, theirs = pair
    with pytest.raises(NotFound):
        ours.export_bundle(ours)
    with ours.here():
        WorkspaceKeys(ours.mem.store).revoke()
    with pytest.raises(NoKey):
        ours.export_bundle(theirs)
    with theirs.here():
        settings = (theirs.path / "synapse.yaml").read_text()
        (theirs.path / "synapse.yaml").write_text(settings.replace("agent: ours", "agent: boss"))
        with synapse.open(str(theirs.path)) as mem, pytest.raises(NotTrusted):
            import_bundle(mem, "ours", [])


def test_a_bundle_for_another_or_of_another_or_of_a_later_version(pair):
    ours, theirs = pair
    ours.write("one")
    lines, _ = ours.export_bundle(theirs)
    assert "for another key" in ours.import_bundle(theirs, lines).problem

    def of_version(version):
        return [json.dumps(json.loads(line) | {"bundle": version}) for line in lines]

    refused = theirs.import_bundle(ours, of_version("2.0"))
    assert "version 2.0" in refused.problem
    assert "update" in refused.problem
    assert "not as ours signed it" in theirs.import_bundle(ours, of_version("1.1")).problem
    for broken in ("{}", "[]", "null", "[" * 99_999, '{"bundle": 1}', "x" * 3_000_000):
        assert theirs.import_bundle(ours, [broken]).problem
    assert theirs.foreign(ours) == {}
    assert "no end" in theirs.import_bundle(ours, lines[:-1]).problem


def test_a_later_minor_version_is_read(pair, monkeypatch):
    ours, theirs = pair
    ours.write("one")
    with monkeypatch.context() as patch:
        patch.setattr(bundles, "VERSION", "1.7")
        lines, _ = ours.export_bundle(theirs)
    assert bodies(theirs.import_bundle(ours, lines)) == ["one"]


def test_a_cursor_of_another_log_is_refused(pair):
    ours, theirs = pair
    ours.write("one")
    for cursor in (f"1:{'0' * 32}", "1", "99:x", f"999:{'0' * 32}"):
        with pytest.raises(InvalidQuery):
            ours.export_bundle(theirs, cursor)


def test_a_log_that_was_put_back_is_noticed(pair, tmp_path):
    """Its numbers are given out a second time."""
    ours, theirs = pair
    ours.write("one")
    with ours.here():
        ours.mem.close()
        shutil.copytree(ours.path, tmp_path / "copy")
        ours.mem = synapse.open(str(ours.path), clock=ours.clock)
    for body in ("two", "three"):
        ours.write(body)
    theirs.import_bundle(ours, ours.export_bundle(theirs)[0])
    with ours.here():
        ours.mem.close()
        shutil.rmtree(ours.path)
        shutil.move(tmp_path / "copy", ours.path)
        ours.mem = synapse.open(str(ours.path), clock=ours.clock)
    ours.clock.advance("1h")
    ours.write("another two")
    taken = theirs.import_bundle(ours, ours.export_bundle(theirs)[0])
    assert "put back" in taken.problem
    assert taken.entries == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("key: no key", "public key"),
        ("agent: operator", "agent is"),
        ("namespace: ../up", "namespace is"),
        ("namespace: ''", "namespace is"),
    ],
)
def test_a_partner_that_cannot_be_is_named(pair, line, why):
    ours, _ = pair
    settings = (ours.path / "synapse.yaml").read_text().splitlines()
    name = line.partition(":")[0]
    changed = [f"    {line}" if text.strip().startswith(f"{name}:") else text for text in settings]
    (ours.path / "synapse.yaml").write_text("\n".join(changed))
    with (
        ours.here(),
        synapse.open(str(ours.path)) as mem,
        pytest.raises(synapse.SynapseError) as no,
    ):
        [*export_bundle(mem, "theirs")]
    assert why in str(no.value)


def test_the_command_line_hands_out_and_takes_in(pair, tmp_path, capsys):
    ours, theirs = pair
    first = ours.write("Call /v2/users\nand not v1", ttl="never")
    bundle = str(tmp_path / "bundle")
    with ours.here():
        assert cli.main(["--root", str(ours.path), "export", "--for", "theirs", bundle]) == 0
        assert "1 entries for theirs" in capsys.readouterr().out
        assert cli.main(["--root", str(ours.path), "export", "--for", "theirs", bundle]) != 0
        assert "exists already" in capsys.readouterr().err
        assert cli.main(["--root", str(ours.path), "export", "--for", "theirs"]) == 0
        text = capsys.readouterr().out
    assert os.stat(bundle).st_mode & 0o77 == 0
    with theirs.here():
        assert cli.main(["--root", str(theirs.path), "import", "--from", "ours", bundle]) == 0
        told = capsys.readouterr().out
        assert first.id.replace("syn-", "syn-ours-") in told
        assert "text from outside" in told
        (tmp_path / "cut").write_text(text.splitlines()[0] + "\n")
        cut = str(tmp_path / "cut")
        assert cli.main(["--root", str(theirs.path), "import", "--from", "ours", cut]) == 1
        assert "stopped: " in capsys.readouterr().out


# -- seven nights ----------------------------------------------------------------------------------


class Stranger:
    """Carries bundles, and may alter, replay, withhold or forge lines."""

    def __init__(self, seed, keys):
        self.random, self.keys = random.Random(seed), keys
        self.seen = {name: [] for name in keys}
        self.ever = {name: set() for name in keys}  # the entries that an organisation once took in

    def carry(self, lines, of):
        """Return what arrives, and what was done to it."""
        before = self.seen[of.name]
        lines, old = [*lines], [*before]
        before += lines
        act = self.random.choice(["", "alter", "replay", "withhold", "all", "cut", "forge", "mix"])
        if act == "alter":
            at = self.random.randrange(len(lines))
            lines[at] = self.altered(lines[at])
        elif act == "replay" and old:
            lines = self.random.sample(old, min(len(old), 4))
        elif act == "withhold" and len(lines) > 1:
            del lines[self.random.randrange(len(lines) - 1)]
        elif act == "all":
            return [], act
        elif act == "cut":
            lines = lines[: self.random.randrange(len(lines))]
        elif act == "forge":
            lines.insert(0, self.forged(lines[0], of))
        elif act == "mix":
            self.random.shuffle(lines)
        return lines, act

    def altered(self, line):
        fields = json.loads(line)
        name = self.random.choice([*fields])
        text = fields[name]
        at = self.random.randrange(len(text))
        fields[name] = text[:at] + self.random.choice("0123456789abcdefXYZ") + text[at + 1 :]
        return json.dumps(fields) + "\n"

    def forged(self, line, of):
        """Return a line that somebody sealed to the right key, signed with a key of their own."""
        from synapse import crypto

        header = json.loads(line)
        header.pop("sealed")
        prev = header.pop("until", None) or header["prev"]
        header |= {"prev": prev, "this": f"{bundles._seq(prev) + 1}:{'0' * 32}"}
        fields = {"id": "syn-forged", "namespace": "api/users", "body": "forged", "author": "boss"}
        body = json.dumps(fields | {"priority": "critical"})
        to = crypto.public_from(self.keys[of.name])
        own = crypto.new_key("@workspace")
        sealed = crypto.seal(body, bundles._canonical(header), [to], own)
        return json.dumps({**header, "sealed": sealed}) + "\n"


def live(organisation):
    """Return what it shows of its own, by its id."""
    boss = organisation.mem.as_agent("boss")
    return {id: entry for id, entry in organisation.written.items() if boss.fate(id) is None}


def work(organisation, chance):
    """Write, replace and file away a little."""
    for number in range(chance.randrange(4)):
        shown = [*live(organisation)]
        old = chance.choice(shown) if shown and chance.random() < 0.3 else None
        body = f"{organisation.name} {organisation.clock.at} {number}"
        organisation.write(body, supersedes=old)
        if shown and chance.random() < 0.2 and (gone := chance.choice(shown)) != old:
            organisation.mem.as_agent("boss").archive(gone)


def night(one, other, stranger):
    """Hand a bundle over; return what was accepted wrongly, and what is missing without a word."""
    ever = stranger.ever[other.name]
    lines, _ = one.export_bundle(other)
    arrived, act = stranger.carry(lines, one)
    taken = other.import_bundle(one, arrived)
    wrong = []
    for entry in taken.entries:
        id = entry.id.replace(f"syn-{one.name}-", "syn-")
        its = one.written.get(id)
        newer = [new.id for new in one.written.values() if id in new.replaces]
        if its is None or its.body != entry.body or id in ever or ever & {*newer}:
            wrong.append((act, entry.body))
        ever.add(id)
    missing = live(one).keys() - other.foreign(one).keys()
    arrived_today = {*lines} & {*arrived}
    silent = [(act, *missing)] if missing and arrived_today and not taken.problem else []
    return wrong, silent


def play(seed, tmp_path, monkeypatch):
    """Play seven nights; return what was accepted wrongly and withheld without a word."""
    tmp_path.mkdir()
    clock, chance = FrozenClock(), random.Random(seed)
    ours, theirs = (Organisation(name, tmp_path, monkeypatch, clock) for name in ("ours", "theirs"))
    ours.knows(theirs), theirs.knows(ours)
    stranger = Stranger(seed, {"ours": theirs.key, "theirs": ours.key})
    wrong, silent = [], []
    for _ in range(7):
        for one, other in ((ours, theirs), (theirs, ours)):
            work(one, chance)
            found = night(one, other, stranger)
            wrong += found[0]
            silent += found[1]
        clock.advance("1d")
    for one, other in ((ours, theirs), (theirs, ours)):
        assert not other.import_bundle(one, one.export_bundle(other)[0]).problem
        assert live(one).keys() == other.foreign(one).keys()
        assert other.mem.verify().ok
    ours.mem.close(), theirs.mem.close()
    return wrong, silent


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 100))]
)
def test_seven_nights_with_a_stranger_in_between(seed, tmp_path, monkeypatch):
    assert play(seed, tmp_path / "play", monkeypatch) == ([], [])


def unsigned(partner, own, line, number):
    """What a line says, whoever signed it."""
    from synapse import crypto

    header = json.loads(line)
    sealed = header.pop("sealed")
    parts = crypto._parse(sealed)
    key = crypto._entry_key(parts, bundles._canonical(header), own)
    return header, json.loads(crypto._open(parts, bundles._canonical(header), key))


def trusting(self, line, number):
    """Take a line in without a look at what is before it."""
    header, fields = bundles._opened(self.partner, self.own, line, number)
    if "until" in header:
        self.end = header | fields
    else:
        self.entries += bundles._write(
            self.agent_memory, self.partner, fields, f"partner:{header['this']}"
        )
        self.received = header["this"]


@pytest.mark.parametrize(("name", "instead"), [("_opened", unsigned), ("_Intake.take", trusting)])
def test_the_checker_finds_who_does_not_look(name, instead, tmp_path, monkeypatch):
    owner, _, attribute = f"bundles.{name}".rpartition(".")
    monkeypatch.setattr(bundles._Intake if "Intake" in owner else bundles, attribute, instead)
    for seed in range(12):
        try:
            wrong, silent = play(seed, tmp_path / f"play{seed}", monkeypatch)
        except (AssertionError, ValueError, KeyError, synapse.SynapseError):
            return
        if wrong or silent:
            return
    pytest.fail("nothing was found")
