import json

import pytest


@pytest.fixture
def sent(team, run):
    """Send a message of eng-backend's; its id."""

    def sent(body="which fee?", *more, who="eng-backend", to="eng-frontend"):
        done = run("send", "--from", who, "--to", to, *more, body)
        assert done.code == 0, done.err
        return done.out.strip()

    return sent


def objects(run, *words):
    done = run(*words, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def thread_of(run, id):
    (found,) = objects(run, "threads", "--agent", "eng-backend", "--status", "all")["threads"]
    return found["id"]


def test_a_message_waits_until_it_is_read(sent, run):
    id = sent("which fee?", "--subject", "Fees", "--priority", "action")
    assert run("poll", "--agent", "eng-frontend").out == "1\n"
    assert objects(run, "poll", "--agent", "eng-backend") == {"agent": "eng-backend", "unread": 0}
    shown = run("inbox", "--agent", "eng-frontend").out
    assert shown.startswith(f"{id} action eng-backend -> eng-frontend 2")
    assert "\n    [Fees]\n    which fee?\n\n-- 1 unread\n" in shown
    assert objects(run, "inbox", "--agent", "eng-frontend", "--mark")["messages"][0]["id"] == id
    assert run("inbox", "--agent", "eng-frontend").out == "-- 0 unread\n"
    assert objects(run, "thread", thread_of(run, id))["messages"][0]["status"] == "read"


def test_a_long_inbox_says_what_is_left(sent, run):
    for n in range(5):
        sent(f"n{n}")
    shown = run("inbox", "--agent", "eng-frontend", "--limit", "2").out
    assert "n0" in shown
    assert "n1" in shown
    assert "n2" not in shown
    assert shown.endswith("-- 2 unread; 3 more\n")
    assert len(objects(run, "inbox", "--agent", "eng-frontend", "--limit", "0")["messages"]) == 5


def test_answers_stand_below_what_they_answer(sent, run):
    first = sent("which fee?", to="eng-frontend,pl-brain")
    second = run("send", "--from", "eng-frontend", "--reply-to", first, "0.1 %").out.strip()
    run("send", "--from", "pl-brain", "--reply-to", first, "ask finance")
    run("send", "--from", "eng-backend", "--reply-to", second, "thanks")
    edited = run("send", "--from", "eng-frontend", "--edit", second, "0.2 %").out.strip()
    shown = run("thread", thread_of(run, first)).out
    lines = [
        line
        for line in shown.split("\n")
        if line.strip() in ("which fee?", "0.2 %", "thanks", "ask finance")
    ]
    assert lines == ["    which fee?", "      0.2 %", "        thanks", "      ask finance"]
    assert f"{edited} normal" in shown
    assert "[edited 2" in shown


def test_one_verb_acknowledges_mail_and_deliveries(sent, wrote, run, tmp_path):
    import synapse

    id, entry = sent("deploy?"), wrote("an entry", "--to", "eng-frontend")
    refused = run("ack", "--from", "eng-frontend", entry)
    assert (refused.code, "was not delivered" in refused.err) == (3, True)
    with synapse.open("shared-memory") as mem:
        mem.as_agent("eng-frontend").writer.delivery("offered", [entry], "test")
    done = run("ack", "--from", "eng-frontend", entry, id)
    assert (done.code, done.out) == (0, f"acknowledged {entry}\nacknowledged {id}\n")
    assert run("ack", "--from", "eng-frontend", id, "--body", "done").code == 0
    assert run("ack", "--from", "eng-frontend", id, "--react", "👍").out == f"reacted to {id}\n"
    shown = run("thread", thread_of(run, id)).out
    assert "[acknowledged by eng-frontend: done]" in shown
    assert "[eng-frontend 👍]" in shown
    run("ack", "--from", "eng-frontend", id, "--react", "👍", "--remove")
    assert "👍" not in run("thread", thread_of(run, id)).out
    assert run("ack", "--from", "eng-frontend", entry, "--body", "x").code == 64
    assert run("ack", "--from", "eng-frontend", id, "--remove").code == 64


def test_threads_are_listed_and_changed(sent, run):
    id = thread_of(run, sent("which fee?", "--subject", "Fees"))
    assert run("threads", "--agent", "eng-frontend").out.split("\n")[1] == "    Fees"
    assert run("threads", "--agent", "pl-brain").out == "no active threads\n"
    for change in (
        ("--tag", "money,open"),
        ("--untag", "open"),
        ("--rename", "Which fees"),
        ("--close",),
    ):
        assert run("thread", id, "--from", "eng-backend", *change).code == 0
    assert run("threads", "--status", "all").out.endswith("    Which fees [money] (closed)\n")
    assert run("send", "--from", "eng-backend", "--to", "all", "--thread", id, "x").code == 5
    assert (
        objects(run, "thread", id, "--from", "eng-backend", "--reopen")["thread"]["status"]
        == "active"
    )
    assert objects(run, "threads", "--tag", "money")["threads"][0]["tags"] == ["money"]
    assert run("thread", id, "--close", "--reopen", "--from", "eng-frontend").code == 64
    assert run("thread", id, "--close").code == 64


def test_a_message_keeps_what_goes_with_it(sent, run, tmp_path):
    (tmp_path / "report.md").write_text("one\n", encoding="utf-8")
    sent("see", "--attach", "report.md", "--meta", '{"run": 7}', "--tags", "a,b", "--once", "k")
    sent("see", "--once", "k")
    (found,) = objects(run, "inbox", "--agent", "eng-frontend")["messages"]
    assert (found["metadata"], found["tags"]) == ({"run": 7}, ["a", "b"])
    assert found["attachments"][0]["bytes"] == 4
    assert "[attached " in run("inbox", "--agent", "eng-frontend").out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("send", "--from", "eng-backend", "--to", "nobody", "x"), 3),
        (("send", "--from", "eng-backend", "--to", "all", "--priority", "critical", "x"), 64),
        (("send", "--from", "eng-backend", "--meta", "{", "x"), 64),
        (("send", "--from", "eng-backend", "--meta", "7", "x"), 64),
        (("send", "--from", "eng-backend", "--thread", "x", "--reply-to", "y", "x"), 64),
        (("send", "--from", "eng-backend", "--edit", "syn_0123456789ab", "--to", "all", "x"), 64),
        (("send", "--from", "eng-backend", "--edit", "syn_0123456789ab", "x"), 3),
        (("send", "--from", "eng-backend", "--attach", "none", "x"), 3),
        (("send", "--to", "all", "x"), 64),
        (("inbox",), 64),
        (("inbox", "--agent", "operator"), 64),
        (("poll", "--agent", "nobody"), 3),
        (("threads", "--status", "open"), 64),
        (("thread", "thr_none"), 3),
    ],
)
def test_what_cannot_be_done_says_so(team, run, words, code):
    done = run(*words, "--json")
    assert done.code == code, done
    assert "error" in json.loads(done.out or done.err)


def test_a_run_has_its_own_agent_s_mail_alone(sent, run, monkeypatch):
    sent()
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "pl-brain")
    assert run("poll").out == "0\n"
    for words in (("inbox", "--agent", "eng-frontend"), ("poll", "--agent", "eng-frontend")):
        done = run(*words)
        assert done.code == 4
        assert "acts as pl-brain" in done.err
