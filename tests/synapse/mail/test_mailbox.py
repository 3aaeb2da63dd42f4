"""Mail: who has what waiting, what becomes of messages and threads, and that counts are what
looking gives.
"""

import hashlib
import json
import random

import pytest

import synapse
from synapse import Conflict, Forbidden, InvalidEntry, Mail, NotFound
from synapse.consolidate import run_nightly, undo
from synapse.index.database import load_sql
from synapse.model import kinds
from synapse.model.agents import Agent
from synapse.model.clock import now
from synapse.model.entry import Draft
from synapse.model.message import ack_rows, columns, receipt_rows, thread_columns
from synapse.testing import FrozenClock
from tests.synapse.served import library, mail_of, served

_GONE = ("superseded", "resolved", "replaced by its author")
TEAM = {"helios": ("lab", "ops"), "nova": ("lab",), "augur": ("ops",), "rook": ()}


def peopled(mem):
    for id, teams in TEAM.items():
        mem.register(Agent(id, teams=teams, read=(), write=()))
    mem.register(Agent("junior", review_required=True))
    return mem


@pytest.fixture(params=["memory", "files", "client"])
def mem(request, tmp_path):
    moment, dice = FrozenClock(now() - 90 * 86_400_000_000), random.Random(7)
    root = str(tmp_path / "w")
    made = (
        synapse.init(root, clock=moment, draw=dice.randbytes) if request.param == "files" else None
    )
    with made or synapse.open("memory:", clock=moment, draw=dice.randbytes) as mem:
        if request.param == "client":
            with served(peopled(mem), tmp_path) as both:
                yield both
        else:
            yield peopled(mem)


@pytest.fixture
def post(mem):
    """Everybody's mail."""
    return {id: mail_of(mem.as_agent(id)) for id in TEAM}


# These are about the index, look at everything after each act, or write what a client cannot.
IN_FOLDER = pytest.mark.parametrize("mem", ["memory", "files"], indirect=True)


def waiting(post):
    return {id: mail.poll() for id, mail in post.items()}


def bodies(messages):
    return [each.body for each in messages]


# -- sending ---------------------------------------------------------------------------


def test_a_message_reaches_whom_it_names(post):
    helios = post["helios"]
    for to, heard in (
        ("nova", {"nova"}), ("nova, rook", {"nova", "rook"}), (["team:ops", "rook"], {"augur", "rook"}),
        ("lab", {"nova"}), ("all", {"nova", "augur", "rook"}), (None, {"nova", "augur", "rook"}), ("helios", set()),
    ):  # fmt: skip
        before = waiting(post)
        sent = helios.send(to, f"to {to}")
        told = {id for id, count in waiting(post).items() if count > before[id]}
        assert told == heard
        for id in heard:
            assert post[id].get(sent.id).body == f"to {to}"
        for id in {*TEAM} - heard - {"helios"}:
            with pytest.raises(NotFound):
                post[id].get(sent.id)


def test_what_is_sent_to_nobody_is_refused(post, mem):
    for to in ("nowa", "team:labs", "nova, nowa", "", []):
        with pytest.raises((NotFound, InvalidEntry)):
            post["helios"].send(to, "lost")
    assert not mem.as_agent("helios").read(namespace="mail")


def test_priorities_are_the_documents_words(post, mem):
    tiers = {word: post["helios"].send("nova", word, priority=word) for word in kinds.URGENCY}
    assert {word: sent.priority for word, sent in tiers.items()} == {
        word: word for word in kinds.URGENCY
    }
    assert {word: sent.entry.priority for word, sent in tiers.items()} == dict(kinds.URGENCY)
    with pytest.raises(InvalidEntry, match="not one of info, normal, action, urgent"):
        post["helios"].send("nova", "x", priority="critical")
    woken = [event.entry.body for event in mem.as_agent("nova").follow(0, critical=True, timeout=0)]
    assert woken == ["urgent"]


def test_a_retry_sends_nothing(post):
    first = post["helios"].send("nova", "once", once="key")
    assert post["helios"].send("nova", "once", once="key").id == first.id
    assert post["nova"].poll() == 1


def test_ids_come_from_the_randomness_that_is_given():
    def sent():
        with synapse.open("memory:", clock=FrozenClock(), draw=random.Random(3).randbytes) as mem:
            return Mail(peopled(mem).as_agent("helios")).send("nova", "x", subject="y").entry

    assert sent() == sent()


def test_a_file_is_referred_to_and_never_copied(post, tmp_path, mem):
    file = tmp_path / "report.md"
    file.write_bytes(b"one\n" * 1000)
    sent = post["helios"].send(
        "nova", "see", attachments=[str(file), "https://example.com/x", {"path": "/gone"}]
    )
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert post["nova"].get(sent.id).entry.more["attachments"] == (
        {"path": str(file), "bytes": 4000, "sha256": digest}, {"url": "https://example.com/x"}, {"path": "/gone"},
    )  # fmt: skip
    assert "one\none" not in json.dumps([record.text for record in mem.store.log.since(0)])
    for missing in (str(tmp_path / "none"), str(tmp_path), {"name": "x"}):
        with pytest.raises((NotFound, InvalidEntry)):
            post["helios"].send("nova", "see", attachments=[missing])


# -- answers and versions --------------------------------------------------------------


def test_answers_nest_in_their_thread(post):
    first = post["helios"].send("lab, rook", "which fee?", subject="Fees")
    second = post["nova"].reply(first.id, "0.1 %")
    third = post["rook"].reply(second.id, "of what?", subject="Of what")
    aside = post["rook"].reply(first.id, "between us", to="helios")
    assert {each.thread for each in (second, third, aside)} == {first.thread}
    assert (second.parent, third.parent) == (first.id, second.id)
    assert second.entry.addressees == ("agent:helios", "agent:rook", "team:lab")
    assert aside.entry.addressees == ("agent:helios",)
    assert bodies(post["helios"].history(first.thread)) == [
        "which fee?",
        "0.1 %",
        "of what?",
        "between us",
    ]
    assert bodies(post["nova"].history(first.thread)) == ["which fee?", "0.1 %", "of what?"]
    assert bodies(post["helios"].history(first.thread, 2)) == ["of what?", "between us"]
    assert bodies(post["helios"].history(first.thread, 2, before=third.id)) == [
        "which fee?",
        "0.1 %",
    ]
    everybody = post["helios"].send("all", "news")
    assert post["nova"].reply(everybody.id, "thanks").entry.addressees == ("all",)


def test_an_edit_is_a_new_version_by_the_author(post, mem):
    first = post["helios"].send("nova", "at noon", subject="When", tags="plan")
    post["nova"].inbox(mark=True)
    mem.store.clock.advance("1h")
    second = post["helios"].edit(first.id, "at one")
    third = post["helios"].edit(second.id, "at two", subject="When?")
    assert bodies(post["nova"].inbox()) == ["at two"]
    assert (third.created, third.updated) == (first.created, third.entry.at)
    assert (third.subject, third.thread, third.entry.tags) == ("When?", first.thread, ("plan",))
    assert bodies(post["nova"].history(first.thread)) == ["at two"]
    assert post["nova"].thread(first.thread).total == 1
    assert mem.as_agent("nova").fate(first.id).by == second.id
    with pytest.raises(Forbidden, match="only its author"):
        post["nova"].edit(third.id, "at three")


# -- reading ---------------------------------------------------------------------------


def test_reading_is_noted_once_and_only_where_it_is_asked_for(post, mem):
    sent = [post["helios"].send("all", f"n{n}") for n in range(3)]
    assert bodies(post["nova"].inbox()) == bodies(post["nova"].inbox(limit=3)) == ["n0", "n1", "n2"]
    assert bodies(post["nova"].inbox(1, mark=True)) == ["n0"]
    assert post["nova"].poll() == 2
    assert post["nova"].read([sent[0].id, sent[2].id]) == [sent[2].id]
    mark = mem.store.log.mark()
    assert post["nova"].read(sent[2].id) == []
    assert post["helios"].read(sent[2].id) == []
    assert mem.store.log.mark() == mark
    assert bodies(post["nova"].inbox(mark=True)) == ["n1"]
    assert post["nova"].inbox(mark=True) == []
    assert {mark.agent for mark in post["helios"].get(sent[1].id).reads} == {"nova"}
    assert post["helios"].get(sent[1].id).status == "read"
    assert waiting(post) == {"helios": 0, "nova": 0, "augur": 3, "rook": 3}


def test_an_acknowledgement_says_something_back(post, mem):
    sent = post["helios"].send("nova, rook", "deploy?", priority="urgent")
    assert (
        post["nova"].ack(sent.id, "done", once="k").acks
        == post["nova"].ack(sent.id, "done", once="k").acks
    )
    found = post["helios"].get(sent.id)
    assert [(mark.agent, mark.text) for mark in found.acks] == [("nova", "done")]
    assert [mark.agent for mark in found.reads] == ["nova"]
    assert (found.status, post["nova"].poll(), post["rook"].poll()) == ("acknowledged", 0, 1)
    post["rook"].ack(sent.id)
    post["nova"].ack(sent.id, "really")
    assert [mark.text for mark in post["helios"].get(sent.id).acks] == ["really", None]
    with pytest.raises(Conflict, match="own"):
        post["helios"].ack(sent.id)
    with pytest.raises(NotFound):
        post["augur"].ack(sent.id)


def test_what_was_delivered_is_done_when_it_is_acknowledged(post, mem):
    sent = post["helios"].send("nova", "now", priority="urgent")
    nova = library(mem).as_agent("nova")
    nova.writer.delivery("offered", [sent.id], "test")
    post["nova"].ack(sent.id)
    states = {
        found["state"] for found in mem.store.index.current.deliveries(agent="nova", entry=sent.id)
    }
    assert states == {"offered", "acked"}


def test_reactions_come_and_go(post):
    sent = post["helios"].send("all", "shipped")
    post["nova"].react(sent.id, "👍")
    post["nova"].react(sent.id, "👍")
    post["nova"].react(sent.id, "eyes")
    post["rook"].react(sent.id, "👍")
    found = [(mark.agent, mark.text) for mark in post["helios"].get(sent.id).reactions]
    assert found == [("nova", "eyes"), ("nova", "👍"), ("rook", "👍")]
    left = post["nova"].react(sent.id, "👍", remove=True).reactions
    assert [(mark.agent, mark.text) for mark in left] == [("nova", "eyes"), ("rook", "👍")]
    for wrong in ("", " ", "x" * 41, "a\0b", "\ud800"):
        with pytest.raises(InvalidEntry):
            post["nova"].react(sent.id, wrong)


def test_nobody_looks_into_another_s_mail_but_the_operator(post, mem):
    post["helios"].send("nova", "for nova")
    for ask in (post["rook"].poll, post["rook"].inbox):
        with pytest.raises(Forbidden, match="mail of nova"):
            ask(agent="nova")
    operator = mail_of(mem.as_agent("operator"))
    assert operator.poll(agent="nova") == 1
    assert bodies(operator.inbox(agent="nova")) == ["for nova"]
    assert post["nova"].poll(agent="nova") == 1
    with pytest.raises(Forbidden, match="can mark its mail as read"):
        operator.inbox(agent="nova", mark=True)
    for ask in (operator.poll, operator.inbox):
        with pytest.raises(NotFound, match="no mail of its own"):
            ask()
    with pytest.raises(NotFound, match="no agent nobody"):
        operator.poll(agent="nobody")
    with pytest.raises(Forbidden):
        operator.send("nova", "x")


def test_an_entry_is_no_message(post, mem):
    mem.register(Agent("writer", write=("api/*",), read=("api/*",)))
    entry = mem.as_agent("writer").append("x", "api/y")
    mail = mail_of(mem.as_agent("writer"))
    for act in (
        mail.get,
        mail.read,
        mail.ack,
        lambda id: mail.react(id, "x"),
        lambda id: mail.reply(id, "x"),
    ):
        with pytest.raises(InvalidEntry, match="is not a message"):
            act(entry.id)


def test_mail_of_those_under_review_waits(post, mem):
    sent = mail_of(mem.as_agent("junior")).send("all", "may I?")
    assert sent.entry.staged
    assert post["nova"].poll() == 0
    mem.register(Agent("lead", role="project-lead"))
    mem.as_agent("lead").approve(sent.id)
    assert bodies(post["nova"].inbox()) == ["may I?"]


# -- threads ---------------------------------------------------------------------------


def test_threads_are_listed_as_one_sees_them(post, mem):
    fees = post["helios"].send("all", "which fee?", subject="Fees")
    mem.store.clock.advance("1m")
    secret = post["helios"].send("nova", "psst", subject="Secret")
    mem.store.clock.advance("1m")
    post["helios"].send("nova", "aside", thread=fees.thread, subject="Aside")
    assert [each.subject for each in post["nova"].threads()] == ["Fees", "Secret"]
    assert [(each.subject, each.total) for each in post["rook"].threads()] == [("Fees", 1)]
    assert [(each.subject, each.total) for each in post["nova"].threads(limit=1)] == [("Fees", 2)]
    found = post["rook"].thread(fees.thread)
    assert (found.created_by, found.created, found.last) == ("helios", fees.created, fees.created)
    for act in (
        post["rook"].thread,
        post["rook"].history,
        post["rook"].close,
        lambda id: post["rook"].rename(id, "x"),
    ):
        with pytest.raises(NotFound, match="no thread"):
            act(secret.thread)
    with pytest.raises(NotFound, match="no thread"):
        post["rook"].send("all", "x", thread=secret.thread)
    with pytest.raises(InvalidEntry, match="not one of"):
        post["rook"].threads("open")
    with pytest.raises(InvalidEntry, match="not a thread"):
        post["rook"].send("all", "x", thread="fees")


def test_a_thread_is_closed_reopened_tagged_and_renamed(post):
    first = post["helios"].send("all", "which fee?", subject="Fees")
    post["nova"].tag(first.thread, "money, open")
    post["rook"].tag(first.thread, "later", remove="open")
    assert post["helios"].rename(first.thread, "Which fees").tags == ("money", "later")
    assert [each.subject for each in post["nova"].threads(tag="later")] == ["Which fees"]
    assert post["nova"].threads(tag="open") == []
    assert post["helios"].close(first.thread).status == "closed"
    assert post["nova"].threads() == []
    assert [each.status for each in post["nova"].threads("closed")] == ["closed"]
    assert [each.id for each in post["nova"].threads(None)] == [first.thread]
    for act in (
        lambda: post["nova"].reply(first.id, "x"),
        lambda: post["nova"].send("all", "x", thread=first.thread),
    ):
        with pytest.raises(Conflict, match="closed"):
            act()
    assert post["helios"].reopen(first.thread).status == "active"
    post["nova"].reply(first.id, "0.1 %")


def test_an_idle_thread_is_filed_away_and_comes_back(post, mem):
    moment = mem.store.clock
    idle = post["helios"].send("all", "old", subject="Idle")
    busy = post["helios"].send("all", "old too", subject="Busy")
    moment.advance("20d")
    post["nova"].reply(busy.id, "still here")
    moment.advance("11d")
    assert run_nightly(library(mem), "2026-02-01", moment()).ran
    assert [each.subject for each in post["nova"].threads()] == ["Busy"]
    assert [(each.subject, each.status) for each in post["nova"].threads("archived")] == [
        ("Idle", "archived")
    ]
    assert bodies(post["nova"].history(idle.thread)) == ["old"]
    assert post["nova"].poll() == 1
    assert mem.verify().ok
    undo(library(mem), "2026-02-01")
    assert post["nova"].poll() == 2
    moment.advance("1d")
    run_nightly(library(mem), "2026-02-02", moment())
    assert {each.subject for each in post["nova"].threads()} == {"Busy", "Idle"}, (
        "what was taken back is not done again"
    )
    assert mem.verify().ok


def test_a_message_brings_an_archived_thread_back(post, mem):
    first = post["helios"].send("all", "old")
    mem.as_agent("helios").archive(first.id)
    assert [each.status for each in post["nova"].threads(None)] == ["archived"]
    post["nova"].reply(first.id, "again")
    assert [(each.status, each.total) for each in post["nova"].threads()] == [("active", 2)]


# -- the document's columns ------------------------------------------------------------


def test_every_column_of_the_document_is_there(post, mem):
    first = post["helios"].send(
        "nova", "which fee?", subject="Fees", priority="action", metadata={"n": 1}
    )
    news = post["helios"].send("all", "news")
    answer = post["nova"].reply(first.id, "0.1 %")
    post["nova"].ack(first.id, "ok")
    post["nova"].tag(first.thread, "money")
    found = post["helios"].get(first.id)
    row = columns(found)
    assert list(row) == (
        (
            "id thread_id parent_id from_agent to_agent priority subject body status"
            " created_at updated_at metadata"
        ).split()
    )
    assert {name: row[name] for name in ("to_agent", "priority", "status", "metadata", "parent_id", "updated_at")} == {
        "to_agent": "nova", "priority": "action", "status": "acknowledged", "metadata": {"n": 1}, "parent_id": None,
        "updated_at": None,
    }  # fmt: skip
    assert columns(answer)["parent_id"] == first.id
    assert columns(news)["to_agent"] is None
    assert [list(each) for each in receipt_rows(found)] == [["message_id", "agent_id", "read_at"]]
    assert [each["ack_body"] for each in ack_rows(found)] == ["ok"]
    assert list(thread_columns(post["helios"].thread(first.thread))) == (
        "id subject created_by created_at last_message_at message_count status tags".split()
    )


# -- counts ----------------------------------------------------------------------------


@pytest.mark.parametrize("acts", [100, pytest.param(300, marks=pytest.mark.soak)])
@IN_FOLDER
def test_a_count_is_what_looking_gives_whatever_happens(mem, post, acts):
    """Poll reads a sum that triggers keep; here it is held against looking at every message, act by
    act.
    """
    dice, sent = random.Random(11), []

    def by_author(act):
        id = dice.choice(sent)
        return act(post[mem.store.entry(id).author], id)

    deeds = {
        "send": lambda mail: sent.append(
            mail.send(dice.choice(["all", "nova", "team:ops", "rook,nova"]), "x").id
        ),
        "mortal": lambda mail: sent.append(_mortal(mail, dice)),
        "read": lambda mail: mail.read(dice.choice(sent)),
        "inbox": lambda mail: mail.inbox(dice.randint(0, 2), mark=True),
        "ack": lambda mail: mail.ack(dice.choice(sent)),
        "edit": lambda mail: by_author(lambda own, id: sent.append(own.edit(id, "y").id)),
        "archive": lambda mail: by_author(lambda own, id: own.agent_memory.archive(id)),
        "restore": lambda mail: by_author(lambda own, id: own.agent_memory.restore(id)),
        "resolve": lambda mail: by_author(lambda own, id: own.agent_memory.resolve(id)),
        "wait": lambda mail: mem.store.clock.advance("10m"),
    }
    done = dict.fromkeys(deeds, 0)
    sent.append(post["helios"].send("all", "first").id)
    for _ in range(acts):
        name = dice.choice([*deeds, "send", "read", "archive", "restore"])
        try:
            deeds[name](dice.choice([*post.values()]))
            done[name] += 1
        except synapse.SynapseError:
            pass
        assert waiting(post) == {id: looked_at(mem, id) for id in TEAM}
        assert totals(post) == {id: counted(mem, id) for id in TEAM}
    assert min(done.values()) > 1, done
    digest = mem.digest()
    assert mem.rebuild().digest == digest
    assert waiting(post) == {id: looked_at(mem, id) for id in TEAM}


def _mortal(mail, dice):
    id = kinds.new_id("message", dice.randbytes(6))
    more = kinds.More(thread=kinds.new_thread(dice.randbytes(16)))
    return mail.agent_memory.write(
        Draft("brief", "mail", "", ttl="20m", id=id, kind="message", more=more)
    ).id


def looked_at(mem, id):
    """The unread messages by looking at each one, and at every act on it."""
    read = {}
    for record in mem.store.log.since(0):
        for each in record.fields.get("ids", ()) if record.kind == "receipt" else ():
            read.setdefault(record.by, set()).add(each)
        if record.kind == "acked":
            read.setdefault(record.by, set()).add(record.fields["entry"])
    live = mem.as_agent(id).read(namespace="mail", limit=None)
    return len([each for each in live if each.author != id and each.id not in read.get(id, ())])


def totals(post):
    return {
        id: sum(each.total for each in mail.threads(None, limit=1_000)) for id, mail in post.items()
    }


def counted(mem, id):
    """The messages that were not replaced or resolved, by asking for each what became of it."""
    me, moment = mem.as_agent(id), mem.store.clock()
    entries = [
        mem.store.index.current.entry(record.id, moment)
        for record in mem.store.log.since(0)
        if record.kind == "entry"
    ]
    fates = {entry.id: mem.store.index.current.fate(entry, moment) for entry in entries}
    gone = {each for each, fate in fates.items() if fate and fate.reason in _GONE}
    return len([entry for entry in entries if _sees(me, entry.id) and entry.id not in gone])


def _sees(me, id):
    try:
        return bool(me.get(id))
    except NotFound:
        return False


def test_the_checker_finds_a_trigger_that_forgets(tmp_path):
    """What the model above is for: an index whose sums are wrong in one case does not pass."""
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        post = {id: Mail(peopled(mem).as_agent(id)) for id in TEAM}
        mem.store.index.db.connection.execute("drop trigger message_moves")
        sent = post["helios"].send("all", "x")
        post["nova"].inbox(mark=True)
        mem.as_agent("helios").archive(sent.id)
        assert waiting(post) != {id: looked_at(mem, id) for id in TEAM}


@IN_FOLDER
def test_poll_looks_at_no_message(mem, post):
    """The plan of the statement: sums by key, and the few messages that end some day."""
    for n in range(50):
        post["helios"].send("all", f"n{n}")
    db = mem.store.index.db
    text = load_sql("queries.sql")["poll"].replace("{audiences}", "1,2").replace("{nids}", "1")
    plan = [
        row[3]
        for row in db.connection.execute(
            "explain query plan " + text, {"me": 1, "now": 0, "never": 0}
        )
    ]
    assert not [step for step in plan if step.startswith("SCAN") and "CONSTANT" not in step], plan
