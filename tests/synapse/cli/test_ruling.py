import json
import time

import pytest


def bodies(run, *more):
    return [entry["body"] for entry in json.loads(run("read", "--json", *more).out)["entries"]]


@pytest.fixture
def staged(team, run):
    def staged(body="may I?"):
        done = run("write", "--from", "junior", "--namespace", "status/x", body)
        assert done.code == 0, done.err
        return done.out.strip()

    return staged


def test_a_resolved_blocker_is_no_longer_shown(wrote, run):
    id = wrote("the build is broken", "--priority", "critical", namespace="blockers/ci")
    done = run("resolve", "--from", "eng-backend", id, "--note", "fixed in 1234")
    assert (done.code, done.out) == (0, f"resolved {id}\n")
    assert bodies(run) == []
    assert f"eng-backend resolved {id}: fixed in 1234" in run("log").out


def test_staged_entries_wait_until_they_are_approved(staged, run):
    first, second = staged("first"), staged("second")
    assert bodies(run) == []
    waiting = run("approve", "--from", "pl-brain").out
    assert f"{first} info status/x junior" in waiting
    assert "(staged)" in waiting
    assert [
        e["id"] for e in json.loads(run("approve", "--from", "pl-brain", "--json").out)["entries"]
    ] == [first, second]
    done = run("approve", "--from", "pl-brain", first, second)
    assert (done.code, done.out) == (0, f"approved {first}\napproved {second}\n")
    assert bodies(run) == ["second", "first"]
    assert run("approve", "--from", "pl-brain").out == "nothing waits for review\n"


def test_nobody_approves_their_own(staged, run):
    id = staged()
    done = run("approve", "--from", "junior", id)
    assert done.code == 4
    assert id in done.err
    assert bodies(run) == []


def test_a_rejected_entry_is_never_shown(staged, run):
    id = staged()
    done = run("reject", "--from", "pl-brain", id, "--reason", "not measured", "--json")
    assert json.loads(done.out) == {"id": id, "done": "rejected"}
    assert bodies(run) == []
    assert run("approve", "--from", "pl-brain", id).code == 5


def test_an_unverified_entry_is_vouched_for(team, run):
    (team / "entries" / "api").mkdir(parents=True, exist_ok=True)
    (team / "entries" / "api" / "note.md").write_text(
        "---\nid: syn-2026-02-01-001\nfrom: stranger\ntimestamp: 2026-02-01T01:00:00Z\n"
        "namespace: api\npriority: info\n---\n\nhear me\n"
    )
    time.sleep(0.3)  # a file is taken in once it has not changed for a while
    entry = json.loads(run("read", "--json").out)["entries"][0]
    assert (entry["trust"], entry["authority"]) == ("unverified", 0)
    assert "(unverified)" in run("read").out
    done = run("vouch", "--from", "pl-brain", entry["id"])
    assert (done.code, done.out) == (0, f"vouched for {entry['id']}\n")
    assert json.loads(run("read", "--json").out)["entries"][0]["trust"] == "reviewed"
    assert run("vouch", "--from", "pl-brain", entry["id"]).code == 5


def test_archive_and_restore(wrote, run):
    first, second = wrote("first"), wrote("second")
    done = run("archive", "--from", "eng-backend", first, second, "--reason", "done")
    assert (done.code, done.out) == (0, f"archived {first}\narchived {second}\n")
    assert bodies(run) == []
    assert bodies(run, "--archived") == ["second", "first"]
    assert run("restore", "--from", "eng-backend", first).out == f"restored {first}\n"
    assert bodies(run) == ["first"]


def test_without_a_name_the_operator_decides_and_is_on_record(wrote, staged, run):
    id = wrote("the build is broken", "--priority", "critical", namespace="blockers/ci")
    assert run("resolve", id, "--note", "it has disk now").out == f"resolved {id}\n"
    first, second, third = staged("first"), staged("second"), wrote("third")
    assert run("approve", first).out == f"approved {first}\n"
    assert run("reject", second, "--reason", "no").out == f"rejected {second}\n"
    assert run("archive", third).out == f"archived {third}\n"
    assert run("restore", third).out == f"restored {third}\n"
    assert sorted(bodies(run)) == ["first", "third"]
    acts = json.loads(run("audit", "--json").out)["audit"]
    by = {act["kind"]: act["by"] for act in acts if act["kind"] != "entry"}
    for kind in ("resolve", "approve", "reject", "archive", "restore"):
        assert by[kind] == "operator"


def test_a_spawned_run_never_decides_as_the_operator(wrote, run, monkeypatch):
    """The environment says who it is; a name that differs is refused."""
    id = wrote(namespace="blockers/ci")
    monkeypatch.setenv("SYNAPSE_RUN", "junior-1")
    assert run("resolve", id).code == 4
    monkeypatch.setenv("SYNAPSE_AGENT", "junior")
    assert run("resolve", id).code == 4
    assert run("resolve", "--from", "operator", id).code == 4
    assert bodies(run) != []


@pytest.mark.parametrize("verb", ["resolve", "approve", "reject", "vouch", "archive", "restore"])
def test_what_is_not_there_cannot_be_ruled_on(team, run, verb):
    done = run(verb, "--from", "pl-brain", "--json", "syn-2020-01-01-001")
    assert (done.code, done.out) == (3, "")
    assert json.loads(done.err)["error"]["id"] == "syn-2020-01-01-001"


@pytest.mark.parametrize("verb", ["resolve", "archive"])
def test_a_lower_authority_may_not_rule(wrote, run, verb):
    id = wrote("the lead's word", who="pl-brain")
    done = run(verb, "--from", "eng-backend", id, "--json")
    error = json.loads(done.err)["error"]
    assert done.code == 4
    assert (error["type"], error["agent"]) == ("Forbidden", "eng-backend")
    assert bodies(run) == ["the lead's word"]


def test_what_was_done_before_an_error_is_said(wrote, run):
    id = wrote()
    done = run("resolve", "--from", "eng-backend", id, "syn-2020-01-01-001")
    assert done.code == 3
    assert done.out == f"resolved {id}\n"


def test_the_operator_sees_what_waits_without_a_name(wrote, run, monkeypatch):
    monkeypatch.delenv("SYNAPSE_AGENT", raising=False)
    id = wrote("may I", who="junior")
    done = run("approve")
    assert (done.code, id in done.out) == (0, True)
    assert run("approve", id).out == f"approved {id}\n"
