"""Personal data is masked, or refused where the workspace says so, wherever an agent may write it,
with what was found and never the text; engineering text is not; nothing of it is on the disk
afterwards. What is marked is sealed, whatever the workspace says.
"""

import re
import time
from pathlib import Path

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Scripted
from synapse import cli, tools
from synapse.consolidate import run_nightly
from synapse.errors import InvalidEntry, NoKey, PersonalData, SealError
from synapse.formats import codec
from synapse.mail.mailbox import Mail
from synapse.model.agents import Agent
from synapse.model.clock import day
from synapse.model.entry import Draft, Entry
from synapse.model.settings import Settings
from synapse.privacy import personal
from synapse.testing import FrozenClock
from synapse.tools.tool import call
from synapse.trust.workspace_keys import WorkspaceKeys
from tests.privacy.made import personal as made
from tests.privacy.made import plain_in
from tests.synapse.served import mail_of, served

ROOT = Path(__file__).parents[2]
MAIL = "maria.keller7@gmail.com"


@pytest.fixture
def memory(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as memory:
        for id in ("eng-a", "eng-b"):
            memory.register(Agent(id, "engineer", read=("*",), write=("*",)))
        yield memory


@pytest.fixture
def refusing(memory):
    says(memory, "refuse")
    return memory


def says(memory, word):
    """Let a workspace say what is done with personal data."""
    with open(Path(memory.store.root, "synapse.yaml"), "a", encoding="utf-8") as file:
        file.write(f"privacy: {{personal: {word}}}\n")
    memory.store.refresh(whole=True)


REFUSES = Settings(other=(("privacy", {"personal": "refuse"}),))


def test_a_thousand_are_masked_and_leave_no_byte(memory):
    me, values = memory.as_agent("eng-a"), []
    for kind, text, value in made(1_000):
        body = me.append(text, "team/notes").body
        assert value not in body
        assert body.startswith(text.partition(value)[0])  # and nothing else is lost
        assert personal.concealed(body) == body
        if kind not in ("health", "salary"):  # words that other texts have too
            values.append(value)
    assert len([*me.read(limit=None)]) == 1_000
    assert plain_in(memory.store.root, values) == set()


def test_every_field_is_masked_but_the_topic(memory):
    me, other = memory.as_agent("eng-a"), "kim.lee@web.de"
    fields = {"evidence": f"he wrote it: {MAIL}", "tags": ["ok", MAIL]}
    entry = me.append(f"ask {MAIL} or {other}", "team/x", **fields)
    mark = "[personal data: e-mail address]"
    assert (entry.body, entry.evidence) == (f"ask {mark} or {mark}", f"he wrote it: {mark}")
    assert entry.tags == ("ok", mark)
    with pytest.raises(PersonalData, match="e-mail address in the field topic"):
        me.append("fine", "team/x", topic=MAIL)  # or two topics would be one
    assert plain_in(memory.store.root, [MAIL, other]) == set()


def test_its_author_is_told_what_and_how_many(memory, capsys):
    root = str(memory.store.root)
    args = ["--root", root, "write", "--from", "eng-a", "--namespace", "api/x"]
    text = f"ask {MAIL} or kim.lee@web.de, +49 170 2345678, password=hunter2-and-more"
    assert cli.main([*args, text]) == 0
    heard = capsys.readouterr().err
    assert (
        "personal data was masked before it was stored (e-mail address (2), phone number)" in heard
    )
    assert "a secret was masked before it was stored (password)" in heard
    tool = next(each for each in tools.TOOLS if each.name == "append")
    answer = call(tool, memory.as_agent("eng-a"), {"namespace": "api/x", "body": text}, None)
    assert "personal data was masked before it was stored (e-mail address (2)" in answer


def test_acts_and_mail_are_masked(memory):
    me, mail = memory.as_agent("eng-a"), Mail(memory.as_agent("eng-a"))
    blocker = me.append("It is red.", "blockers/web", priority="critical")
    me.claim("web", note=f"for {MAIL}")
    me.resolve(blocker.id, note=f"solved by {MAIL}")
    me.archive([blocker.id], reason=f"asked {MAIL}")
    mail.send("eng-b", f"ask {MAIL}", subject=f"about {MAIL}")
    memory.tell("eng-a", f"ask {MAIL}")
    kept = "".join(memory.export())
    for text in ("for ", "solved by ", "asked ", "ask ", "about "):
        assert f"{text}[personal data: e-mail address]" in kept
    with pytest.raises(PersonalData):
        me.claim(f"mail to {MAIL}")  # by which it is known
    assert plain_in(memory.store.root, [MAIL]) == set()


def test_a_dropped_file_is_replaced_by_the_masked_text(memory):
    root = Path(memory.store.root)
    (root / "entries/team").mkdir()
    head = "from: eng-a\ntimestamp: 2026-02-01T01:00:00Z\npriority: info\n"
    text = f"---\n{head}tags: [{MAIL}]\n---\nask {MAIL}, please"
    (root / "entries/team/x.md").write_text(text)
    wait_for(memory, lambda: memory.as_agent("eng-a").read(namespace="team/*").entries)
    (entry,) = memory.as_agent("eng-a").read(namespace="team/*")
    assert entry.body == "ask [personal data: e-mail address], please"
    assert entry.tags == ("[personal data: e-mail address]",)
    assert memory.verify().ok
    assert plain_in(root, [MAIL]) == set()


def wait_for(memory, test):
    end = time.monotonic() + 20
    while not test() and time.monotonic() < end:
        time.sleep(0.05)
        memory.store.refresh(whole=True)


def test_off_keeps_what_is_not_marked(memory):
    says(memory, "off")
    me = memory.as_agent("eng-a")
    assert me.append(f"ask {MAIL}", "team/x", tags=[MAIL]).body == f"ask {MAIL}"
    blocker = me.append("It is red.", "blockers/web", priority="critical")
    me.resolve(blocker.id, note=f"solved by {MAIL}")
    with pytest.raises(NoKey, match="pii: true needs a key"):
        me.append("ask the tall one", "team/x", pii=True)
    engine = Scripted(lambda seen: f"Asked {MAIL} about it.")
    with Supervisor(memory, engine=engine) as supervisor:
        result = supervisor.run(Task("Ask somebody", "eng-a"))
    assert me.get(result.entry).body == f"Done: Asked {MAIL} about it."


@pytest.mark.parametrize(
    ("word", "mode"), [("perhaps", "refuse"), ("false", "off"), ("off", "off")]
)
def test_a_word_that_is_none_is_the_strictest(memory, word, mode):
    says(memory, word)
    assert memory.store.settings.personal == mode


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<mailto:maria.keller7@gmail.com>", "e-mail address"),
        ("ruf 0170 2345678 an", "phone number"),
        ("0170/2345678, 0151-23456789", "phone number"),
        ("card 4539.1488.0343.6467, thanks", "card number"),
        ("4539\u00a01488\u00a00343\u00a06467", "card number"),
        ("DE89\u202f3704\u202f0044\u202f0532\u202f0130\u202f00", "iban"),
    ],
)
def test_forms_that_were_missed(text, kind):
    assert set(personal.kinds_in(text)) == {kind}
    masked = personal.concealed(text)
    assert not any(map(str.isdigit, masked))
    assert personal.concealed(masked) == masked


def test_masking_twice_changes_nothing():
    texts = [text for _, text, _ in made(1_400, 3)]
    for one, two in zip(texts, texts[::-1], strict=True):
        for text in (one, f"{one} {two}", f"{one}{two}"):
            masked = personal.concealed(text)
            assert personal.concealed(masked) == masked
    patterns = {"EMP-000001": "EMP-######"}
    assert personal.concealed("EMP-004711", patterns) == "[personal data: EMP-000001]"


def test_a_thousand_are_refused_and_leave_no_byte(refusing):
    memory = refusing
    me, values, kinds = memory.as_agent("eng-a"), [], set()
    for kind, text, value in made(1_000):
        kinds.add(kind)
        with pytest.raises(PersonalData) as caught:
            me.append(text, "team/notes")
        assert value not in str(caught.value)
        if kind not in ("health", "salary"):  # words that other texts have too
            values.append(value)
    assert len(kinds) >= 10
    assert list(me.read()) == []
    assert plain_in(memory.store.root, values) == set()


@pytest.mark.parametrize(
    "fields", [{"topic": MAIL}, {"evidence": f"he wrote it: {MAIL}"}, {"tags": ["ok", MAIL]}]
)
def test_every_field_is_asked(refusing, fields):
    memory = refusing
    with pytest.raises(PersonalData, match="e-mail address in"):
        memory.as_agent("eng-a").append("fine", "team/x", **fields)


def test_acts_and_mail_are_asked(refusing):
    memory = refusing
    me, mail = memory.as_agent("eng-a"), Mail(memory.as_agent("eng-a"))
    blocker = me.append("It is red.", "blockers/web", priority="critical")
    with pytest.raises(PersonalData):
        me.resolve(blocker.id, note=f"solved by {MAIL}")
    with pytest.raises(PersonalData):
        me.archive([blocker.id], reason=f"asked {MAIL}")
    with pytest.raises(PersonalData):
        me.claim("web", note=f"for {MAIL}")
    with pytest.raises(PersonalData):
        mail.send("eng-b", f"ask {MAIL}")
    with pytest.raises(PersonalData):
        mail.send("eng-b", "ask", subject=f"about {MAIL}")
    with pytest.raises(PersonalData):
        memory.tell("eng-a", f"ask {MAIL}")
    assert plain_in(memory.store.root, [MAIL]) == set()


def test_a_dropped_file_is_put_aside_without_it(refusing):
    memory = refusing
    root = Path(memory.store.root)
    (root / "entries/team").mkdir()
    head = "from: eng-a\ntimestamp: 2026-02-01T01:00:00Z\npriority: info\n"
    (root / "entries/team/x.md").write_text(f"---\n{head}---\nask {MAIL}, please")
    end = time.monotonic() + 20
    while not list((root / "quarantine").iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
        memory.store.refresh(whole=True)
    texts = "".join(path.read_text() for path in (root / "quarantine").iterdir())
    assert "ask [personal data: e-mail address], please" in texts
    assert "personal data (e-mail address in the body)" in texts
    assert plain_in(root, [MAIL]) == set()


def test_a_run_ends_all_the_same(memory):
    engine = Scripted(lambda seen: f"Asked {MAIL} about it.")
    with Supervisor(memory, engine=engine) as supervisor:
        result = supervisor.run(Task("Ask somebody", "eng-a"))
    assert result.status == "done"
    body = memory.as_agent("eng-b").get(result.entry).body
    assert body == "Done: Asked [personal data: e-mail address] about it."


def test_encrypted_entries_have_a_short_time():
    draft = Draft(f"ask {MAIL}", "team/x", "eng-a", scope="encrypted")
    assert personal.checked(draft).ttl == "24h"
    assert personal.checked(draft._replace(ttl="7d")).ttl == "7d"
    plain = draft._replace(body="ask him", ttl="never")
    assert personal.checked(plain).ttl == "never"
    assert personal.checked(plain._replace(pii=True, ttl=None)).ttl == "24h"
    for ttl in ("8d", "never"):
        with pytest.raises(InvalidEntry, match="at most 7d"):
            personal.checked(draft._replace(ttl=ttl))
    for scope in ("public", "team", "private"):
        with pytest.raises(PersonalData):
            personal.checked(draft._replace(scope=scope), REFUSES)


@pytest.mark.parametrize(
    "fields", [{"topic": MAIL}, {"tags": ("ok", MAIL)}, {"evidence": MAIL}, {"more": {"x": MAIL}}]
)
def test_beside_a_sealed_body_it_is_refused(fields):
    draft = Draft("ask", "team/x", "eng-a", scope="encrypted", **fields)
    with pytest.raises(PersonalData, match="e-mail address in"):
        personal.checked(draft)
    with pytest.raises(PersonalData) as caught:
        personal.checked(draft._replace(body=f"ask {MAIL}"))
    assert "in the body" not in str(caught.value)


@pytest.fixture
def keyed(tmp_path):
    """A memory whose agents have keys, and a clock that is moved."""
    moment = FrozenClock()
    with synapse.init(str(tmp_path / "ws"), clock=moment) as memory:
        for id in ("eng-a", "eng-b"):
            memory.register(Agent(id, "engineer", read=("*",), write=("*",)))
            WorkspaceKeys(memory.store).new(id)
        yield memory, moment


def test_what_is_marked_is_shown_to_its_readers_for_a_day(keyed, tmp_path):
    """In the library, in mail and over HTTP; no pattern knows the text."""
    memory, moment = keyed
    text, sealed = "Ask the tall one", {"scope": "encrypted", "pii": True}
    with served(memory, tmp_path) as over_http:
        for ask in (memory, over_http):
            me = ask.as_agent("eng-a")
            mail, theirs = mail_of(me), mail_of(ask.as_agent("eng-b"))
            for scope in ("public", "team", "private"):
                with pytest.raises(SealError):
                    me.append(text, "api/x", pii=True, scope=scope)
                with pytest.raises(SealError):
                    mail.send("eng-b", text, pii=True, scope=scope)
            with pytest.raises(InvalidEntry, match="at most 7d"):
                me.append(text, "api/x", to="eng-b", ttl="8d", **sealed)
            me.append(text, "api/x", to="eng-b", **sealed)
            mail.edit(mail.send("eng-b", "At first", **sealed).id, text)
            (message,) = theirs.inbox(mark=True)
            assert theirs.get(message.id).body == text
            theirs.reply(message.id, text, pii=True)
    written = [record for record in memory.store.log.since(0) if record.kind == "entry"]
    assert [record.fields["ttl"] for record in written] == ["24h"] * 8
    assert [entry.body for entry in memory.as_agent("eng-b").read()] == [text] * 2
    assert Mail(memory.as_agent("eng-a")).poll() == 2
    assert "Ask the tall" not in "".join(memory.export())
    moment.advance("25h")
    assert memory.as_agent("eng-b").read().entries == ()
    assert Mail(memory.as_agent("eng-a")).poll() == 0


def test_a_night_passes_a_sealed_blocker_on_without_its_text(keyed):
    memory, moment = keyed
    text = "The tall one has to say yes"
    WorkspaceKeys(memory.store).new()
    for scope, to in (("encrypted", "agent:eng-b"), ("private", "all")):
        memory.as_agent("eng-a").append(
            text, "blockers/x", priority="critical", ttl="1h", scope=scope, to=to
        )
    moment.advance("25h")
    run_nightly(memory, day(moment()), moment())
    told = [e for e in memory.as_agent("operator").read() if "escalated" in e.tags]
    assert sorted(e.body.rpartition("[sealed")[2].partition(" for ")[2] for e in told) == [
        "agent:eng-b]",
        "all]",
    ]
    assert text not in "".join(memory.export())
    assert memory.verify().ok


def test_a_night_merges_no_personal_data_from_before(tmp_path):
    root, moment, number = tmp_path / "ws", FrozenClock(), "EMP-004711"
    with synapse.init(str(root), clock=moment) as memory:
        memory.register(Agent("eng-a", "engineer", read=("*",), write=("*",)))
        me = memory.as_agent("eng-a")
        for _ in range(3):
            me.append(f"Ask {number} about the endpoint of the users", "api/x")
            me.append("The endpoint of the users takes 80 ms", "api/x")
        me.append(f"Ask {number}", "blockers/x", priority="critical", ttl="1h")
        with open(root / "synapse.yaml", "a", encoding="utf-8") as file:
            file.write("privacy: {patterns: {employee number: 'EMP-######'}}\n")
        memory.store.refresh(whole=True)
        before = memory.store.log.last()
        moment.advance("25h")
        run_nightly(memory, day(moment()), moment())
        written = [*memory.store.log.since(before)]
        made = [record.text for record in written if record.kind == "entry"]
        assert not any(number in text for text in made)
        assert any("Ask [personal data: employee number]" in text for text in made)
        assert any("takes 80 ms" in text for text in made)
        assert len([e for e in me.read(namespace="api/*") if number in e.body]) == 3


def wait_for_drops(memory, folder):
    end = time.monotonic() + 20
    while [*folder.glob("*.md")] and time.monotonic() < end:
        time.sleep(0.05)
        memory.store.refresh(whole=True)


def test_a_dropped_envelope_that_is_marked_has_a_short_time(keyed):
    memory, moment = keyed
    store = memory.store
    entry = Entry("", "eng-a", "2026-02-01T01:00:00Z", "team/x", "info", "ask", "24h")
    entry = entry._replace(scope="encrypted", addressees=("agent:eng-b",))
    for ttl, name in (("24h", "kept"), ("30d", "aside")):
        closed = store.keyring.closed(entry._replace(ttl=ttl), moment(), store.agents.all())
        text = codec.render(closed).replace("ttl:", "pii: true\nttl:", 1)
        path = Path(store.root, f"inbox/eng-a/new/{name}.md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    wait_for_drops(memory, path.parent)
    (kept,) = memory.as_agent("eng-b").read()
    assert (kept.body, kept.ttl, kept.trust) == ("ask", "24h", "keyed")
    (why,) = Path(store.root, "quarantine").glob("*.reason.txt")
    assert "at most 7d" in why.read_text()


def test_a_workspace_adds_kinds(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as memory:
        memory.register(Agent("eng-a", "engineer", read=("*",), write=("*",)))
        path = tmp_path / "ws/synapse.yaml"
        more = "privacy: {personal: refuse, patterns: {employee number: EMP-######}}\n"
        path.write_text(path.read_text() + more)
        memory.store.refresh(whole=True)
        me = memory.as_agent("eng-a")
        with pytest.raises(PersonalData, match="employee number in the body"):
            me.append("ask EMP-004711", "team/x")
        with pytest.raises(PersonalData):
            me.append(f"ask {MAIL}", "team/x")
        assert me.append("ask EMP-47", "team/x").body == "ask EMP-47"


def test_a_kind_of_the_workspace_is_looked_for_wherever_others_are(tmp_path):
    number, root = "EMP-004711", tmp_path / "ws"
    synapse.init(str(root)).close()
    with open(root / "synapse.yaml", "a", encoding="utf-8") as file:
        file.write("privacy: {personal: refuse, patterns: {employee number: 'EMP-######'}}\n")
    with synapse.open(str(root)) as memory:
        memory.register(Agent("eng-a", "engineer", read=("*",), write=("*",)))
        me = memory.as_agent("eng-a")
        blocker = me.append("It is red.", "blockers/web", priority="critical")
        with pytest.raises(PersonalData, match="employee number in the field note"):
            me.resolve(blocker.id, note=f"solved by {number}")
        with pytest.raises(PersonalData, match="employee number in the field reason"):
            me.archive([blocker.id], reason=f"asked {number}")
        folder = root / "inbox/eng-a/new"
        head = "timestamp: 2026-02-01T01:00:00Z\npriority: info\nnamespace: team/x\n"
        for name, first in (("refused", "from: eng-a\n"), ("malformed", "from: no!\n")):
            (folder / f"{name}.md").write_text(f"---\n{first}{head}---\nask {number}")
        wait_for_drops(memory, folder)
        assert plain_in(root, [number]) == set()
        with Supervisor(memory, engine=Scripted(lambda seen: f"Ask {number}.")) as runs:
            done = runs.run(Task("Ask somebody", "eng-a"))
        assert me.get(done.entry).body == "Done: Ask [personal data: employee number]."


@pytest.mark.parametrize(
    "text",
    [
        "git@github.com:synapse/memory.git, noreply@github.com, you@example.com",
        "build 20260201.4711, 1.2.3+20260201, 2026-02-01T01:00:00Z, port 8080-8090",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "syn-2026-02-01-001, 1795456550432565 µs, 127.0.0.1:8000, the user IP 10.0.0.1",
        "diagnosis: the index was stale; the patient loop waits 300 ms",
        "icon@2x.png, checkout@v4, pkg@1.2.3, postgresql@14-main.service, @decorator",
        "call me at the end of the phase; phone home is off; salary table has 12 rows",
        "born from an idea of 2024; the address 0x7f9de8119190; 10 Downing tests",
        "0 to 4,294,967,295 and 4.294.967.295; ids 1234567890123456 and 4000000000000000",
    ],
)
def test_engineering_text_stays(text):
    assert personal.kinds_in(text) == []


def test_false_positives_on_the_texts_of_this_project():
    total = hits = 0
    for folder in ("docs", "synapse", "orchestrator", "tests/synapse", "tests/orchestrator"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md"):
                for part in re.split(r"\n\s*\n", path.read_text()):
                    total += len(part) > 20
                    hits += len(part) > 20 and bool(personal.kinds_in(part))
    assert total > 8_000
    assert hits / total <= 0.005


def test_a_detector_that_knows_fewer_kinds_is_found_out(monkeypatch):
    fewer = tuple(form for form in personal.FORMS if form[0] != "iban")
    monkeypatch.setattr(personal, "FORMS", fewer)
    missed = {kind for kind, text, _ in made(140) if not personal.kinds_in(text)}
    assert missed == {"iban"}
