"""The scopes private and encrypted, and signatures: who is shown what, and that nothing of a sealed
body is in any file.
"""

import base64
import gc
import os
import random
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synapse
from synapse import backup, crypto
from synapse.access.sharing import share
from synapse.consolidate import nightly
from synapse.errors import NoKey, NotFound, SealError
from synapse.integrity import checkpoints
from synapse.integrity.redaction import redact
from synapse.mail.mailbox import Mail
from synapse.model.agents import OPERATOR, Agent
from synapse.model.entry import Draft
from synapse.system import home
from synapse.trust import keyring
from synapse.trust.keyring import unproven
from synapse.trust.workspace_keys import WorkspaceKeys
from tests.examples import examples

SECRET = "Türcode 4711-xq7zk9wv-verbatim"
TEAM = ("team/web",)


def register(memory):
    for id in ("eng-a", "eng-b", "eng-c"):
        memory.register(
            Agent(id, teams=("web",), read=("*",), write=("*",))
            if id != "eng-c"
            else Agent(id, read=("*",), write=("*",))
        )


@pytest.fixture
def memory(tmp_path):
    with synapse.init(tmp_path / "ws") as memory:
        register(memory)
        for id in ("eng-a", "eng-b"):
            WorkspaceKeys(memory.store).new(id)
        WorkspaceKeys(memory.store).new()
        yield memory


def me(memory, id):
    return memory.as_agent(id)


def write(memory, scope="encrypted", body=SECRET, to="eng-b", **more):
    return me(memory, "eng-a").append(
        body, "team/web", priority="important", to=to, scope=scope, **more
    )


def needles(body=SECRET):
    raw = body.encode()
    yield raw
    yield body.lower().encode()
    yield raw.decode().encode("unicode_escape")
    for shift in range(3):
        text = base64.b64encode(b"x" * shift + raw)
        yield text[4:-4]
    yield b"4711-xq7zk9wv"
    yield b"xq7zk9wv"


def leaks(root):
    found = tuple(needles())
    paths = [path for path in Path(root).rglob("*") if path.is_file()]
    assert paths
    return {str(path): needle for path in paths for needle in found if needle in _bytes(path)}


def _bytes(path):
    try:
        return path.read_bytes()
    except FileNotFoundError:  # a draft that has its name by now
        return b""


@pytest.mark.parametrize("scope", ["private", "encrypted"])
def test_who_holds_a_key_is_shown_the_body(memory, scope):
    id = write(memory, scope).id
    for reader in ("eng-a", "eng-b"):
        mine = me(memory, reader)
        assert mine.get(id).body == SECRET
        assert [entry.body for entry in mine.read()] == [SECRET]
        assert SECRET in mine.briefing().markdown()
    unread = me(memory, "eng-b").read(unread=True, budget=1_000)
    assert [entry.body for entry in unread] == [SECRET]
    with pytest.raises(synapse.NotFound):
        me(memory, "eng-c").get(id)
    if scope == "encrypted":
        line = f"[sealed {id} for agent:eng-b]"
        operator = me(memory, OPERATOR)
        assert operator.get(id).body == line
        assert line in operator.briefing().markdown()
        assert [entry.body for entry in operator.read()] == [line]


def test_what_is_stored_is_the_envelope_alone(memory):
    entry = write(memory, tags=("ops",), topic="door")
    stored = memory.store.entry(entry.id)
    assert crypto.is_envelope(stored.body)
    assert stored.trust == "keyed"
    assert (stored.topic, stored.tags, stored.addressees) == ("door", ("ops",), ("agent:eng-b",))
    assert memory.verify().ok


def test_no_byte_of_a_sealed_body_is_in_the_tree(memory, tmp_path):
    """Through append, read, briefing, search, mail, a night, exports and a snapshot; while the
    workspace is open, so that the index's log of changes and temporary files are there too."""
    root = memory.store.root
    ids = [write(memory, scope).id for scope in ("private", "encrypted")]
    write(memory, "encrypted", f"{SECRET} again", to="team:web")
    Mail(me(memory, "eng-a")).send("eng-b", SECRET, scope="encrypted", subject="door")
    assert leaks(root) == {}
    for reader in ("eng-a", "eng-b", OPERATOR):
        mine = me(memory, reader)
        for id in ids:
            mine.get(id)
        mine.read()
        mine.briefing(about="Türcode xq7zk9wv", budget=2_000)
        mine.search("4711 xq7zk9wv verbatim")
        if reader != OPERATOR:
            mine.read(unread=True, budget=2_000, mark=True)
            mine.briefing(mark=True)
            inbox = Mail(mine).inbox(mark=True)
            assert [message.body for message in inbox] in ([], [SECRET])
    assert leaks(root) == {}
    thread = Mail(me(memory, "eng-b")).threads()[0].id
    Mail(me(memory, "eng-a")).send("eng-b", "said in public", thread=thread)
    Mail(me(memory, "eng-a")).close(Mail(me(memory, "eng-a")).threads()[0].id, summary=True)
    nightly.run_nightly(memory, "2026-11-24", memory.store.clock())
    memory.rebuild()
    me(memory, "eng-b").archive(ids[1])
    text = "".join(memory.export()) + "".join(memory.export("A"))
    (tmp_path / "ws" / "out.jsonl").write_text(text)
    backup.take(memory.store, str(tmp_path / "snapshots"))
    assert leaks(root) == {}
    assert leaks(tmp_path / "snapshots") == {}
    assert memory.verify().ok
    gc.collect()


def test_the_search_of_the_tree_finds_what_leaks(memory):
    me(memory, "eng-a").append(SECRET, "team/web")
    me(memory, "eng-a").read()
    assert len(leaks(memory.store.root)) >= 3


def test_nothing_is_found_by_the_words_of_a_sealed_body(memory):
    id = write(memory, topic="the door").id
    mine = me(memory, "eng-b")
    assert [hit.id for hit in mine.search("4711 verbatim")] == []
    found = list(mine.search("door"))
    assert [hit.id for hit in found] == [id]
    assert found[0].entry.body == SECRET
    assert found[0].excerpt == ""


def test_without_a_key_nothing_is_stored(memory):
    before = len(list(memory.store.log.since(0)))
    for id, how, told in [
        ("eng-a", {"to": "eng-c"}, "eng-c has no key"),
        ("eng-a", {"to": "all"}, "to all"),
        ("eng-c", {"to": "eng-b"}, "eng-c has no key"),
    ]:
        with pytest.raises(NoKey, match=told):
            me(memory, id).append(SECRET, "team/web", scope="encrypted", **how)
    with pytest.raises(NotFound, match="agent nobody is not registered"):
        me(memory, "eng-a").append(SECRET, "team/web", scope="encrypted", to="nobody")
    WorkspaceKeys(memory.store).revoke()
    with pytest.raises(NoKey, match="workspace's key was revoked"):
        write(memory, "private")
    assert leaks(memory.store.root) == {}
    assert len(list(memory.store.log.since(0))) == before + 1


def test_plain_text_of_a_sealed_scope_comes_to_no_log(memory):
    from synapse.authority import admit
    from synapse.model.records import Record

    agent = memory.store.agents.get("eng-a")
    draft = Draft(SECRET, "team/web", "eng-a", scope="private")
    entry = admit(draft, agent, memory.store.settings)
    with pytest.raises(NoKey):
        memory.store.commit.append(Record.new("entry", "eng-a", {}, entry))
    assert leaks(memory.store.root) == {}


def test_who_has_a_key_signs_all_it_writes(memory):
    entry = me(memory, "eng-a").append("plain", "team/web")
    stored = memory.store.entry(entry.id)
    found = memory.store.keyring.keys.current["eng-a"]
    crypto.verify(stored.signature, "plain", crypto.header(stored), keyring.public(found))
    assert stored.trust == "keyed"
    assert me(memory, "eng-c").append("plain", "team/web").trust == "local"
    derived = me(memory, "eng-a").append(
        "more", "team/web", derived_from=me(memory, "eng-c").append("x", "team/web").id
    )
    assert derived.trust == "local"
    assert memory.verify().ok
    memory.rebuild()
    assert memory.store.entry(entry.id).signature == stored.signature


def test_an_agent_without_its_private_key_writes_nothing(memory):
    id = memory.store.keyring.keys.current["eng-a"].id
    os.unlink(os.path.join(home.operator_home(), memory.store.keyring.place("eng-a", id)))
    with (
        synapse.open(memory.store.root) as again,
        pytest.raises(NoKey, match=f"eng-a's key {id} is not here"),
    ):
        again.as_agent("eng-a").append("plain", "team/web")


def test_a_lost_key_is_named_where_the_body_would_stand(memory):
    id = write(memory).id
    key = memory.store.keyring.keys.current["eng-b"].id
    os.unlink(os.path.join(home.operator_home(), memory.store.keyring.place("eng-b", key)))
    with synapse.open(memory.store.root) as again:
        body = again.as_agent("eng-b").get(id).body
    assert body.startswith(f"[sealed {id} for agent:eng-b] (")
    assert key in body


def test_rotation_keeps_what_was_sealed_readable(memory):
    id = write(memory).id
    WorkspaceKeys(memory.store).rotate("eng-a")
    WorkspaceKeys(memory.store).rotate("eng-b")
    assert me(memory, "eng-b").get(id).body == SECRET
    later = write(memory).id
    assert me(memory, "eng-b").get(later).body == SECRET
    assert memory.verify().ok


def test_a_revoked_key_signs_no_more(memory):
    id = write(memory).id
    WorkspaceKeys(memory.store).revoke("eng-a")
    with pytest.raises(NoKey, match="eng-a's key was revoked"):
        me(memory, "eng-a").append("plain", "team/web")
    assert me(memory, "eng-b").get(id).body == SECRET
    WorkspaceKeys(memory.store).new("eng-a")
    assert me(memory, "eng-a").append("plain", "team/web").trust == "keyed"
    assert memory.verify().ok


def dropped(memory, text, name="drop.md"):
    path = Path(memory.store.root, "entries", "team", "web", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    time.sleep(0.25)  # a drop is taken once it stood unchanged for a moment
    memory.store.refresh(whole=True)
    memory.store.refresh()
    return [e for e in me(memory, OPERATOR).read() if "dropped" in e.body]


def drop_text(memory, body="dropped", signer="eng-a", **changed):
    from synapse.formats import codec
    from synapse.model.entry import Entry

    entry = Entry(
        "syn-2026-02-01-001", "eng-a", "2026-02-01T01:00:00Z", "team/web", "critical", body, "never"
    )
    if signer:
        key = memory.store.keyring.private(memory.store.keyring.keys.current[signer])
        entry = entry._replace(signature=crypto.sign(body, crypto.header(entry), key))
    return codec.render(entry._replace(**changed))


def test_a_drop_is_believed_by_its_signature(memory):
    (entry,) = dropped(memory, drop_text(memory))
    assert (entry.trust, entry.priority) == ("keyed", "critical")
    again = dropped(memory, drop_text(memory) + "\n", "copy.md")
    assert sorted(entry.trust for entry in again) == ["keyed", "unverified"]
    assert memory.verify().ok


@pytest.mark.parametrize(
    "how",
    [
        {"signer": None},
        {"signer": "eng-b"},
        {"body": "dropped", "priority": "important"},
        {"ttl": "7d"},
        {"tags": ("more",)},
        {"signature": "00.AAAA"},
    ],
)
def test_a_drop_that_is_not_signed_is_unverified(memory, how):
    (entry,) = dropped(memory, drop_text(memory, **how))
    assert (entry.trust, entry.authority) == ("unverified", 0)
    assert memory.verify().ok


def test_a_drop_of_a_sealed_scope_is_an_envelope(memory):
    text = drop_text(memory, scope="encrypted", addressees=("agent:eng-b",), signer=None)
    assert dropped(memory, text) == []
    assert list(Path(memory.store.root, "quarantine").glob("*drop.md"))


def test_verify_and_import_find_what_is_not_signed(memory, tmp_path):
    from synapse.authority import admit
    from synapse.model.records import Record

    agent = memory.store.agents.get("eng-a")
    entry = admit(Draft("forged", "team/web", "eng-a"), agent, memory.store.settings)
    memory.store.commit.append(Record.new("entry", "eng-a", {}, entry._replace(trust="keyed")))
    (problem,) = memory.verify().problems
    assert "eng-a has a key, and did not sign it" in problem.what
    with (
        synapse.init(tmp_path / "other") as other,
        pytest.raises(synapse.InvalidEntry, match="did not sign"),
    ):
        other.import_(memory.export())


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """The records of a workspace whose authors have keys, and those keys."""
    place = tmp_path_factory.mktemp("signed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYNAPSE_HOME", str(place / "home"))
        with synapse.init(place / "ws") as memory:
            register(memory)
            for id in ("eng-a", "eng-b"):
                WorkspaceKeys(memory.store).new(id)
            WorkspaceKeys(memory.store).new()
            write(memory)
            for number in range(3):
                me(memory, "eng-a").append(f"plain {number}", "team/web", tags=["ops"])
            me(memory, "eng-b").append("of another", "team/web")
            write(memory, body="another", topic="another")  # a header of its own
            yield [*memory.store.log.since(0)]


CHANGES = (
    ("namespace", "team/other"),
    ("priority", "critical"),
    ("ttl", "90d"),
    ("tags", ["more"]),
    ("addressees", ["agent:eng-c"]),
    ("topic", "another"),
    ("derived_from", ["syn-2026-02-01-001"]),
    ("replaces", ["syn-2026-02-01-001"]),
    ("timestamp", "2026-02-01T01:00:01Z"),
    ("kind", "fact"),
    ("more", {"subject": "x"}),
)
WAYS = "field letter body author nobody signature masked early".split()


def split_text(record):
    """Return the head and the body of an entry's text."""
    start = record.fields["start"]
    return record.text[:start], record.text[start:]


def forged(draw, records):
    """Return the records with one entry as its author did not write it, in one of the ways."""
    places = [n for n, each in enumerate(records) if each.kind == "entry"]
    place, way = draw.choice(places), draw.choice(WAYS)
    record, other = records[place], records[draw.choice(places)]
    fields, (head, body) = dict(record.fields), split_text(record)
    if way == "signature" and "scope" in fields:
        way = "letter"  # an envelope has its signature within
    if way == "field":
        name, value = draw.choice(CHANGES)
        fields[name] = value
    elif way in ("letter", "masked"):
        at = draw.randrange(len(body.strip()))
        body = body[:at] + chr(ord(body[at]) ^ 1) + body[at + 1 :]
        fields |= {"masked": "00"} if way == "masked" else {}
    elif way == "body":
        body = draw.choice((split_text(other)[1], "[redacted]"))
    elif way == "author":
        fields["author"] = draw.choice(("eng-a", "eng-b", "eng-c", "stranger"))
    elif way == "nobody":
        fields |= {"author": "eng-c", "signature": None}
    elif way == "signature":
        fields["signature"] = other.fields.get("signature")
    made = record._replace(fields=fields, text=head + body)
    if way == "early":  # before its author had a key
        return made, [made._replace(seq=1), *records]
    return made, [*records[:place], made, *records[place + 1 :]]


@given(st.integers(0, 1_000_000))
@examples(10_000)
def test_no_forged_entry_is_believed(signed, seed):
    made, records = forged(random.Random(seed), signed)
    found = [(record.id, len(why) > 20) for record, why in unproven(records)]
    if made not in signed or records[0] == made._replace(seq=1):
        assert (made.id, True) in found
    else:
        assert found == []


def test_what_does_not_look_at_the_author_is_found_out(signed, monkeypatch):
    monkeypatch.setattr(keyring, "_unproven", lambda entry, found: "")
    changed = [forged(random.Random(seed), signed) for seed in range(200)]
    missed = [made for made, records in changed if not [*unproven(records)]]
    assert any(made not in signed for made in missed)


@pytest.mark.parametrize(
    ("author", "by", "fields"),
    [
        ("eng-a", "eng-a", {}),
        ("eng-a", "eng-a", {"masked": "00"}),
        ("eng-a", "eng-c", {}),
        ("eng-c", "eng-c", {}),
        ("consolidator", "consolidator", {}),
    ],
)
@pytest.mark.parametrize("body", ["forged", "[redacted]"])
@pytest.mark.parametrize("keys", [True, False])
def test_an_entry_that_says_it_is_signed_has_to_be(tmp_path, author, by, fields, body, keys):
    from synapse.authority import admit
    from synapse.model.records import Record

    with synapse.init(tmp_path / "ws") as memory:
        register(memory)
        if keys:
            WorkspaceKeys(memory.store).new("eng-a")
        entry = admit(
            Draft(body, "team/web", "eng-a"),
            memory.store.agents.get("eng-a"),
            memory.store.settings,
        )._replace(author=author, trust="keyed")
        forged = Record.new("entry", by, fields, entry)
        memory.store.commit.append(forged)
        assert len(memory.verify().problems) == 1
        with (
            synapse.init(tmp_path / "other") as other,
            pytest.raises(synapse.InvalidEntry, match="cannot be taken in"),
        ):
            other.import_(memory.export())


def test_a_signed_drop_with_a_secret_is_not_what_was_signed(memory):
    key = "AKIA" + "Q7" * 8
    (entry,) = dropped(memory, drop_text(memory, f"dropped {key}"))
    assert entry.body == "dropped [secret: aws access key]"
    assert (entry.trust, entry.authority) == ("unverified", 0)
    assert memory.verify().ok


def test_an_export_goes_into_another_workspace(memory, tmp_path):
    id = write(memory).id
    me(memory, "eng-a").append("plain", "team/web")
    with synapse.init(tmp_path / "other") as other:
        other.import_(memory.export())
        assert other.verify().ok
        body = other.as_agent("eng-b").get(id).body
        assert "is not here" in body  # the keys are those of the other place


def test_a_line_that_stands_for_a_body_is_no_way_to_one(memory):
    id = write(memory).id
    text = f"> [sealed {id} for agent:eng-b]\n"
    assert me(memory, "eng-b").access.revealed(text) == f"> {SECRET}\n"
    assert me(memory, "eng-c").access.revealed(text) == text
    assert me(memory, OPERATOR).access.revealed(text) == text


def test_a_body_of_many_lines_stays_behind_its_quotes(memory):
    id = write(memory, body="one\n## two\nthree").id
    text = f"- head\n  > [sealed {id} for agent:eng-b]\nend [sealed {id} for agent:eng-b]"
    shown = me(memory, "eng-b").access.revealed(text)
    assert shown == "- head\n  > one\n  > ## two\n  > three\nend one ## two three"


def test_pii_is_for_the_encrypted_scope(memory):
    with pytest.raises(NoKey):
        me(memory, "eng-a").append("x", "team/web", pii=True)
    assert write(memory, pii=True).scope == "encrypted"


def test_an_envelope_of_another_entry_is_refused(memory):
    from synapse.authority import admit
    from synapse.model.records import Record

    sealed = memory.store.entry(write(memory).id)
    agent = memory.store.agents.get("eng-a")
    draft = Draft(
        sealed.body,
        "team/web",
        "eng-a",
        scope="encrypted",
        addressees=("agent:eng-b", "agent:eng-c"),
        timestamp=sealed.timestamp,
        ttl=sealed.ttl,
    )
    entry = admit(draft, agent, memory.store.settings)
    id = memory.store.commit.append(Record.new("entry", "eng-a", {}, entry)).id
    assert "(refused: " in me(memory, "eng-b").get(id).body
    with pytest.raises(SealError):
        memory.store.keyring.body(memory.store.entry(id), "eng-b")
    assert not memory.verify().ok


def test_a_writer_that_was_open_before_hears_of_a_key_as_it_reads(memory):
    with synapse.open(memory.store.root) as other:
        mine = other.as_agent("eng-c")
        assert mine.append("before", "team/web").trust == "local"
        WorkspaceKeys(memory.store).new("eng-c")
        mine.read()
        assert mine.append("after", "team/web").trust == "keyed"
    assert memory.verify().ok


def test_a_holder_shares_an_entry_with_one_more(memory):
    id = write(memory).id
    WorkspaceKeys(memory.store).new("eng-c")
    with pytest.raises(synapse.NotFound):
        share(me(memory, "eng-c").access, id, "eng-c")
    before = memory.store.entry(id)
    share(me(memory, "eng-b").access, id, "agent:eng-c")
    assert me(memory, "eng-c").get(id).body == SECRET
    assert memory.store.entry(id) == before
    WorkspaceKeys(memory.store).rotate("eng-c")
    assert me(memory, "eng-c").get(id).body == SECRET
    assert memory.verify().ok
    assert leaks(memory.store.root) == {}
    public = me(memory, "eng-a").append("plain", "team/web").id
    with pytest.raises(SealError, match="not in the scope encrypted"):
        share(me(memory, "eng-a").access, public, "eng-c")


def test_a_new_member_of_a_team_is_given_what_was_sealed_before(memory):
    id = write(memory, to="team:web").id
    memory.register(Agent("eng-d", teams=("web",), read=("*",), write=("*",)))
    WorkspaceKeys(memory.store).new("eng-d")
    assert me(memory, "eng-d").get(id).body == f"[sealed {id} for team:web]"
    share(me(memory, "eng-a").access, id, "eng-d")
    assert me(memory, "eng-d").get(id).body == SECRET
    assert [entry.body for entry in me(memory, "eng-d").read()] == [SECRET]


def test_what_was_shared_by_who_holds_no_key_opens_nothing(memory):
    id = write(memory).id
    WorkspaceKeys(memory.store).new("eng-c")
    key = memory.store.keyring.keys.current["eng-c"].id
    fields = {"entry": id, "with": "eng-c", "to": key, "wrapped": "AAAA"}
    me(memory, "eng-c").writer.act("share", **fields)
    with pytest.raises(synapse.NotFound):
        me(memory, "eng-c").get(id)
    me(memory, "eng-b").writer.act("share", **fields)
    assert SECRET not in me(memory, "eng-c").get(id).body
    other = write(memory, body="another").id
    share(me(memory, "eng-a").access, other, "eng-c")
    (record,) = [r for r in memory.store.acts(None, other, None, None) if r.kind == "share"]
    me(memory, "eng-b").writer.act("share", **{**record.fields, "entry": id})
    assert "refused" in me(memory, "eng-c").get(id).body


def test_what_is_masked_is_signed_as_it_is_stored(memory):
    entry = me(memory, "eng-a").append(
        f"deploy with {'AKIA' + 'IOSFODNN7' + 'EXAMPLE'}", "team/web"
    )
    assert entry.trust == "keyed"
    assert "[secret: aws access key]" in memory.store.entry(entry.id).body
    assert memory.verify().ok


@pytest.fixture
def unequipped(monkeypatch):
    """What makes the package cryptography one that is not installed, from the call on."""

    def without():
        for name in [*sys.modules]:
            if name.partition(".")[0] == "cryptography":
                monkeypatch.setitem(sys.modules, name, None)
        for name in ("_load", "_suite", "_public", "_x25519", "_ed25519"):
            getattr(crypto, name).cache_clear()
        for name in ("_x25519_public", "_ed25519_public"):
            getattr(crypto, name).cache_clear()

    return without


def test_without_the_package_the_rest_works_and_says_so(memory, unequipped, tmp_path):
    sealed, draft = write(memory), drop_text(memory)
    me(memory, "eng-a").append("signed", "team/web")
    checkpoints.make(memory.store)
    unequipped()
    with synapse.open(memory.store.root) as again:
        for id in ("eng-a", "eng-b"):
            body = me(again, id).get(sealed.id).body
            assert body.startswith(f"[sealed {sealed.id} for agent:eng-b] (sealing and")
            assert body.endswith("install '.[crypto]')")
            with pytest.raises(NoKey, match=r"install '\.\[crypto\]'"):
                me(again, id).append("signed", "team/web")
        assert me(again, "eng-c").append("plain", "team/web").trust == "local"
        assert "plain" in [entry.body for entry in me(again, "eng-b").read()]
        (entry,) = dropped(again, draft)
        assert entry.trust == "unverified"
        report = again.verify()
        assert report.ok
        assert "signatures were not checked" in report.notes[0]
        assert "checkpoints are signed with the package" in report.notes[1]
        with synapse.init(tmp_path / "other") as other, pytest.raises(NoKey):
            other.import_(again.export())


@pytest.mark.parametrize("scope", ["private", "encrypted"])
def test_a_secret_beside_a_sealed_body_is_masked_before_it_is_sealed(memory, scope):
    key = "AKIA" + "IOSFODNN7" + "EXAMPLE"
    fields = {"topic": f"the {key}", "tags": (key,), "evidence": key}
    entry = write(memory, scope, f"{SECRET} {key}", **fields)
    read = me(memory, "eng-b").get(entry.id)
    assert (read.body, read.topic) == (f"{SECRET} {key}", "the [secret: aws access key]")
    mail = Mail(me(memory, "eng-a"))
    sent = mail.send("eng-b", SECRET, scope=scope, subject=f"about {key}")
    assert Mail(me(memory, "eng-b")).get(sent.id).body == SECRET
    assert memory.verify().ok
    assert key.encode() not in b"".join(
        _bytes(path) for path in Path(memory.store.root).rglob("*") if path.is_file()
    )


def test_what_is_redacted_is_not_reported_as_unsigned(memory):
    ids = [me(memory, "eng-a").append("the plan of the vault", "team/web").id]
    ids.append(write(memory).id)
    for id in ids:
        redact(memory.store, id, "it was said by mistake")
    assert memory.verify().ok
    memory.rebuild()
    assert memory.verify().ok
