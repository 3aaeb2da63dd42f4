"""Entries reach the receivers of webhooks: those that may leave, each at least once, under one id."""

import json
import os
import random
import time

import pytest

import synapse
from synapse.access import containment
from synapse.integrity import redaction
from synapse.model.entry import Entry
from synapse.model.records import Record
from synapse.webhooks import outbox, signatures, status
from synapse.webhooks.outbox import Backoff
from tests.synapse.webhooks.conftest import SECRET, VARIABLE, Running, declare, wait_for
from tests.trusted import trust


@pytest.fixture
def mem(root):
    with synapse.open(str(root)) as mem:
        yield mem


def ready(running, count=1):
    assert wait_for(lambda: len(running.sender.outboxes) == count)
    return running


def write(mem, count, start=0, **more):
    fields = {"priority": "important"} | more
    agent_memory = mem.as_agent("eng")
    return [
        agent_memory.append(f"text {number}", "api/x", **fields).id
        for number in range(start, start + count)
    ]


def ids_taken(receiver):
    return [json.loads(body)["data"]["id"] for _, body, _ in receiver.taken]


def test_an_entry_is_sent_and_signed(root, mem, receiver):
    declare(root, receiver.url)
    with Running(mem.store) as running:
        ready(running)
        entry = mem.as_agent("eng").append("use /v2", "api/x", priority="critical")
        assert wait_for(lambda: receiver.taken)
    ((headers, body, when),) = receiver.taken
    fields = json.loads(body)
    assert (fields["type"], fields["data"]["id"]) == ("entry.created", entry.id)
    assert fields["data"]["body"] == "use /v2"
    key = signatures.key_of(SECRET)
    assert signatures.verify([key], headers, body, when) == headers["webhook-id"]
    assert running.notes == []


def test_a_question_to_the_operator_says_how_it_is_answered(root, mem, receiver):
    declare(root, receiver.url, **{"as": "operator"})
    with Running(mem.store) as running:
        ready(running)
        mem.as_agent("eng").append("for cto alone", "api/x", to="agent:cto")
        asked = mem.as_agent("eng").append("Which?", "api/x", to="operator")
        mem.as_agent("eng").append("told to all", "api/x")
        assert wait_for(lambda: len(receiver.taken) == 2)
    data = [json.loads(body)["data"] for _, body, _ in receiver.taken]
    answers = {entry["id"]: entry.get("answer") for entry in data}
    assert answers.pop(asked.id) == f'orchestrator answer {asked.id} "..."'
    assert [*answers.values()] == [None]


def test_what_was_there_before_is_not_sent(root, mem, receiver):
    write(mem, 3)
    declare(root, receiver.url)
    with Running(mem.store) as running:
        ready(running)
        (new,) = write(mem, 1, 3)
        assert wait_for(lambda: receiver.taken)
    assert ids_taken(receiver) == [new]


@pytest.mark.parametrize(
    ("more", "bodies"),
    [
        ({"priorities": ["critical"]}, {"loud"}),
        ({"namespaces": ["team/*"]}, {"elsewhere"}),
        ({"agents": ["cto"]}, {"decided"}),
        ({"agents": ["cto", "eng"], "priorities": ["critical", "important"]}, {"loud"}),
    ],
)
def test_only_what_the_webhook_is_for_is_sent(root, mem, receiver, more, bodies):
    declare(root, receiver.url, **more)
    with Running(mem.store) as running:
        ready(running)
        eng, cto = mem.as_agent("eng"), mem.as_agent("cto")
        eng.append("loud", "api/x", priority="critical")
        eng.append("elsewhere", "team/x")
        cto.append("decided", "decisions/x")
        assert wait_for(lambda: len(receiver.taken) == len(bodies))
        time.sleep(0.3)
    assert set(receiver.bodies()) == bodies


# -- what may leave --------------------------------------------------------------------------------


def secrets_written(mem):
    """Write what is not public; return whose eyes see which body."""
    eng, cto = mem.as_agent("eng"), mem.as_agent("cto")
    mem.register(synapse.Agent("junior", write=["api/*"], review_required=True))
    cto.append("for eng", "api/x", to="eng")
    cto.append("for the team", "api/x", to="team:red")
    eng.append("scope team", "api/x", scope="team")
    eng.append("my own", "agents/eng/notes")
    eng.append("the group's", "groups/red/notes")
    synapse.Mail(cto).send("eng", "private mail")
    mem.as_agent("junior").append("not reviewed", "api/x")
    eng.append("public", "api/x", priority="critical")


def seal(mem):
    pytest.importorskip("cryptography")
    from synapse.trust.workspace_keys import WorkspaceKeys

    held = WorkspaceKeys(mem.store)
    for name in (None, "eng", "cto"):
        held.new(name)
    for scope in ("private", "encrypted"):
        mem.as_agent("cto").append(f"sealed {scope}", "api/x", scope=scope, to="eng")


def test_the_public_sees_what_is_public(root, mem, receiver):
    declare(root, receiver.url)
    with Running(mem.store) as running:
        ready(running)
        secrets_written(mem)
        seal(mem)
        mem.as_agent("eng").append("the end", "api/x")
        assert wait_for(lambda: "the end" in receiver.bodies())
    assert sorted(receiver.bodies()) == ["public", "the end"]
    assert receiver.refused == []


def test_an_agent_sees_what_it_sees_and_nothing_sealed(root, mem, receiver):
    declare(root, receiver.url, **{"as": "eng"})
    with Running(mem.store) as running:
        ready(running)
        secrets_written(mem)
        seal(mem)
        mem.as_agent("eng").append("the end", "api/x")
        assert wait_for(lambda: "the end" in receiver.bodies())
    assert sorted(receiver.bodies()) == sorted(
        [
            "for eng",
            "for the team",
            "scope team",
            "my own",
            "the group's",
            "private mail",
            "public",
            "the end",
        ]
    )


def test_what_an_agent_may_not_see_never_leaves(root, mem, receiver):
    mem.register(synapse.Agent("narrow", read=["team/*"], write=[]))
    declare(root, receiver.url, **{"as": "narrow"})
    with Running(mem.store) as running:
        ready(running)
        secrets_written(mem)
        mem.as_agent("eng").append("the end", "team/x")
        assert wait_for(lambda: receiver.taken)
    assert receiver.bodies() == ["the end"]


def test_a_reviewed_entry_is_sent_when_it_is_approved(root, mem, receiver):
    mem.register(synapse.Agent("junior", write=["api/*"], review_required=True))
    declare(root, receiver.url)
    with Running(mem.store) as running:
        ready(running)
        entry = mem.as_agent("junior").append("waits", "api/x")
        write(mem, 1)
        assert wait_for(lambda: receiver.taken)
        assert entry.id not in ids_taken(receiver)
        mem.as_agent("cto").approve(entry.id)
        assert wait_for(lambda: entry.id in ids_taken(receiver))


def test_an_entry_that_somebody_vouches_for_is_sent_as_it_counts_then(root, mem, receiver):
    """It asked for critical, which nobody believed: a webhook for criticals has it only now."""
    declare(root, receiver.url, priorities=["critical"])
    with Running(mem.store) as running:
        ready(running)
        doubtful = Entry(
            *("", "eng", "", "api/x", "important", "doubtful", "30d"),
            trust="unverified",
            claimed="critical",
        )
        mem.store.commit.append(Record.new("entry", "eng", {}, doubtful))
        write(mem, 1, priority="critical")
        assert wait_for(lambda: receiver.taken)
        id = next(e.id for e in mem.as_agent("cto").read() if e.body == "doubtful")
        mem.as_agent("cto").vouch(id)
        assert wait_for(lambda: len(receiver.taken) == 2)
    types = [json.loads(body)["type"] for _, body, _ in receiver.taken]
    assert types == ["entry.created", "entry.vouched"]
    assert json.loads(receiver.taken[1][1])["data"]["priority"] == "critical"


@pytest.mark.parametrize("how", ["redacted", "tainted"])
def test_what_is_taken_back_while_it_waits_does_not_leave(root, mem, receiver, how):
    receiver.answer = lambda *call: 503
    declare(root, receiver.url)
    with Running(mem.store, Backoff(first=0.05, longest=0.05, attempts=10_000)) as running:
        ready(running)
        entry = mem.as_agent("eng").append("the code is tangerine", "api/x")
        assert wait_for(lambda: receiver.heard >= 2)
        if how == "redacted":
            redaction.redact(mem.store, entry.id, "a code")
        else:
            containment.taint(mem.as_agent("operator").access, entry.id, "poison")
        time.sleep(0.2)
        receiver.answer = lambda *call: 200
        write(mem, 1)
        assert wait_for(lambda: "text 0" in receiver.bodies())
        assert wait_for(
            lambda: not running.sender.outboxes[next(iter(running.sender.outboxes))].waiting
        )
    assert not any(b"tangerine" in body for _, body, _ in receiver.taken)


# -- what fails ------------------------------------------------------------------------------------


def checked(receiver, written):
    """Return what is wrong with what a receiver took: entries that it never took, and entries that
    came under more than one id.
    """
    by = {}
    for headers, body, _ in (*receiver.taken, *receiver.refused):
        by.setdefault(json.loads(body)["data"]["id"], set()).add(headers["webhook-id"])
    lost = [id for id in written if id not in ids_taken(receiver)]
    return lost, [id for id, ids in by.items() if len(ids) != 1]


def test_a_receiver_that_fails_half_the_time_loses_nothing(root, mem, receiver):
    draw = random.Random(11)
    faults = (500, 503, "cut", "hang", 429)
    receiver.answer = lambda *call: 200 if draw.random() < 0.5 else draw.choice(faults)
    declare(root, receiver.url)
    with Running(mem.store, patience=0.05) as running:
        ready(running)
        written = write(mem, 200)
        assert wait_for(lambda: len(set(ids_taken(receiver))) == 200, 120)
    assert checked(receiver, written) == ([], [])
    assert len(receiver.refused) > 50


@pytest.mark.soak
def test_a_thousand_entries_and_a_receiver_that_fails(root, mem, receiver):
    draw = random.Random(12)
    faults = (500, 503, "cut", "hang", 429)
    receiver.answer = lambda *call: 200 if draw.random() < 0.5 else draw.choice(faults)
    declare(root, receiver.url)
    with Running(mem.store, patience=0.05) as running:
        ready(running)
        written = write(mem, 1000)
        assert wait_for(lambda: len(set(ids_taken(receiver))) == 1000, 500)
    assert checked(receiver, written) == ([], [])
    repeats = sum(receiver.ids().values()) - len(receiver.ids())
    print(f"{receiver.heard} deliveries, {len(receiver.refused)} failed, {repeats} repeats")


def test_what_is_never_taken_becomes_a_dead_letter_and_can_be_sent_again(root, mem, receiver):
    receiver.answer = lambda *call: 500
    declare(root, receiver.url)
    with Running(mem.store, Backoff(0.01, 0.01, 3)) as running:
        ready(running)
        written = write(mem, 5)
        assert wait_for(lambda: len(status.states(mem.store)[0].dead) == 5)
        (row,) = status.states(mem.store)
        assert {letter["entry"] for letter in row.dead} == set(written)
        assert {letter["attempts"] for letter in row.dead} == {3}
        receiver.answer = lambda *call: 200
        first = row.dead[0]["id"]
        assert status.resend(mem.store, first) == [first]
        assert wait_for(lambda: len(receiver.taken) == 1)
        assert len(status.resend(mem.store, "chat")) == 4
        assert wait_for(lambda: set(ids_taken(receiver)) == set(written))
    assert checked(receiver, written) == ([], [])
    (row,) = status.states(mem.store)
    assert (row.dead, row.pending, row.state) == ((), 0, "ready")


def test_one_that_is_refused_for_ever_holds_up_no_other(root, mem, receiver):
    receiver.answer = lambda number, body: 500 if b"text 0" in body else 200
    declare(root, receiver.url)
    with Running(mem.store, Backoff(0.01, 0.01, 10_000)) as running:
        ready(running)
        bad, *written = write(mem, 20)
        assert wait_for(lambda: len(receiver.taken) == 19)
        assert set(ids_taken(receiver)) == set(written)
        (box,) = running.sender.outboxes.values()
        assert wait_for(lambda: len(box.waiting) == 1)
        assert box.low() < next(iter(box.waiting.values())).seq
    state = outbox.read_state(outbox.folder_of(mem.store), "chat")
    # behind the cursor, which did not pass the bad one
    assert len(state["settled"]) == 19
    assert bad not in ids_taken(receiver)


def test_one_that_holds_up_the_cursor_for_too_long_is_given_up(root, mem, receiver, monkeypatch):
    monkeypatch.setattr(outbox, "OVERTAKEN", 10)
    receiver.answer = lambda number, body: 500 if b"text 0" in body else 200
    declare(root, receiver.url)
    with Running(mem.store, Backoff(0.01, 0.01, 10_000)) as running:
        ready(running)
        bad, *_ = write(mem, 20)
        assert wait_for(lambda: status.states(mem.store)[0].dead)
        (row,) = status.states(mem.store)
        assert [letter["entry"] for letter in row.dead] == [bad]
        assert wait_for(lambda: len(receiver.taken) == 19)


def test_a_redirect_is_not_followed(root, mem, receiver):
    receiver.answer = lambda number, body: 302 if number == 1 else 200
    declare(root, receiver.url)
    with Running(mem.store) as running:
        ready(running)
        write(mem, 1)
        assert wait_for(lambda: receiver.taken)
    assert "redirect" in running.notes[0]
    assert receiver.heard == 2  # the same address twice


# -- the cursor ------------------------------------------------------------------------------------


def test_a_sender_goes_on_where_the_last_one_was(root, mem, receiver):
    declare(root, receiver.url)
    with Running(mem.store) as running:
        ready(running)
        first = write(mem, 3)
        assert wait_for(lambda: len(receiver.taken) == 3)
    second = write(mem, 3, 3)
    with Running(mem.store):
        assert wait_for(lambda: len(receiver.taken) == 6)
    assert sorted(ids_taken(receiver)) == [*first, *second]


def test_a_log_that_is_another_one_is_gone_through_from_what_both_have(root, mem, receiver):
    """As after git merged another history: what came from there is sent, whatever its place."""
    declare(root, receiver.url)
    with Running(mem.store) as running:
        ready(running)
        write(mem, 3)
        assert wait_for(lambda: len(receiver.taken) == 3)
    folder = outbox.folder_of(mem.store)
    state = outbox.read_state(folder, "chat")
    late = write(mem, 4, 3)
    state["marks"][-1][1] = state["marks"][-1][1].replace(
        state["marks"][-1][1].split(" ")[2], "0" * 64
    )
    state["cursor"] = mem.store.log.last()  # by the journal that was there before
    state["marks"][-1][0] = state["cursor"]
    with open(outbox.state_path(folder, "chat"), "w") as file:
        json.dump(state, file)
    with Running(mem.store):
        assert wait_for(lambda: set(late) <= set(ids_taken(receiver)))
    assert checked(receiver, late) == ([], [])


WHOLE = {"cursor": 5, "settled": {}, "marks": [], "attempts": {}, "sent": 0}


@pytest.mark.parametrize(
    "text",
    [
        '{"cursor": 5',
        "[]",
        "null",
        '"text"',
        '{"cursor": 5}',
        json.dumps(WHOLE | {"cursor": "5"}),
        json.dumps(WHOLE | {"cursor": -1}),
        json.dumps(WHOLE | {"settled": []}),
        json.dumps(WHOLE | {"settled": {"msg": True}}),
        json.dumps(WHOLE | {"marks": [5]}),
        json.dumps(WHOLE | {"marks": [[5, None]]}),
        json.dumps(WHOLE | {"attempts": {"msg": 3}}),
    ],
)
def test_a_damaged_file_is_said_and_nothing_is_skipped(root, mem, receiver, text):
    declare(root, receiver.url)
    folder = outbox.made_folder(mem.store)
    with open(outbox.state_path(folder, "chat"), "w") as file:
        file.write(text)
    with Running(mem.store) as running:
        assert wait_for(lambda: running.notes)
        write(mem, 1)
        time.sleep(0.3)
    assert "is damaged" in running.notes[0]
    assert "is damaged" in status.states(mem.store)[0].state
    assert receiver.heard == 0


def test_one_of_two_senders_sends(root, mem, receiver):
    declare(root, receiver.url)
    with synapse.open(str(root)) as other, Running(other.store) as second:
        assert wait_for(lambda: second.sender.outboxes)
        with Running(mem.store) as first:
            assert wait_for(lambda: first.notes)
            written = write(mem, 20)
            assert wait_for(lambda: len(receiver.taken) == 20)
            assert first.sender.outboxes == {}
            assert status.is_up(mem.store)
    assert sorted(ids_taken(receiver)) == sorted(written)
    assert set(receiver.ids().values()) == {1}
    assert not status.is_up(mem.store)


# -- trust and secrets -----------------------------------------------------------------------------


def test_nothing_is_sent_before_a_person_trusts_it(root, mem, receiver):
    declare(root, receiver.url, trusted=False)
    with Running(mem.store) as running:
        ready(running)
        written = write(mem, 2)
        assert wait_for(lambda: any("synapse trust" in note for note in running.notes))
        assert receiver.heard == 0
        trust(root)
        assert wait_for(lambda: len(receiver.taken) == 2)
        text = (root / "synapse.yaml").read_text()
        (root / "synapse.yaml").write_text(text.replace('"secret"', '"as": "cto", "secret"'))
        assert wait_for(lambda: [each.reader for each in [*running.sender.outboxes]] == ["cto"])
        write(mem, 1, 2)
        time.sleep(0.5)
    assert sorted(ids_taken(receiver)) == written


def test_a_secret_may_lie_in_a_file_that_is_the_persons_alone(root, mem, receiver, tmp_path):
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o644)
    declare(root, receiver.url, secret=str(path))
    with Running(mem.store) as running:
        ready(running)
        write(mem, 1)
        assert wait_for(lambda: any("chmod 600" in note for note in running.notes))
        path.chmod(0o600)
        assert wait_for(lambda: receiver.taken)


@pytest.mark.parametrize(
    "secret", [SECRET, "AWS_SECRET_ACCESS_KEY", "./secret", "synapse.yaml/../x", ""]
)
def test_no_secret_of_another_kind_is_used(root, mem, receiver, secret, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    (root / "secret").write_text(SECRET)
    declare(root, receiver.url, secret=secret)
    with Running(mem.store) as running:
        write(mem, 1)
        assert wait_for(lambda: running.notes)
    assert receiver.heard == 0
    assert status.states(mem.store)[0].state != "ready"
    if secret == SECRET:
        assert SECRET not in running.notes[0]


def test_while_one_secret_takes_over_from_another_both_sign(root, mem, receiver, monkeypatch):
    other = "whsec_" + "b" * 43 + "="
    monkeypatch.setenv("SYNAPSE_KEY_NEW", other)
    declare(root, receiver.url, secret=["SYNAPSE_KEY_NEW", VARIABLE])
    with Running(mem.store) as running:
        ready(running)
        write(mem, 1)
        assert wait_for(lambda: receiver.taken)
    ((headers, body, when),) = receiver.taken
    for secret in (other, SECRET):
        assert signatures.verify([signatures.key_of(secret)], headers, body, when)


def test_a_person_tests_a_webhook(root, mem, receiver):
    declare(root, receiver.url)
    assert status.send_test(mem.store, "chat") == (True, "200", 0.0)
    ((_, body, _),) = receiver.taken
    assert json.loads(body)["type"] == "webhook.test"
    receiver.answer = lambda *call: 500
    assert status.send_test(mem.store, "chat").delivered is False
    assert not os.path.exists(outbox.folder_of(mem.store))


# -- the schedule ----------------------------------------------------------------------------------


def test_the_waits_double_and_are_spread():
    backoff = Backoff(first=1, longest=100, attempts=9)
    assert [backoff.delay(failed, 1.0) for failed in (1, 2, 3, 4, 9, 99)] == [1, 2, 4, 8, 100, 100]
    assert [backoff.delay(failed, 0.0) for failed in (1, 2, 9)] == [0.5, 1, 50]
