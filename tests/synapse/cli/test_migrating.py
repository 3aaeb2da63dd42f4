"""Taking over from the shell, the old file back, and the mirror."""

import json

import pytest

OLD = [
    {
        "id": "m1",
        "from": "Helios",
        "to": "nova",
        "subject": "s",
        "body": "one",
        "read_by": ["nova"],
        "ack_body": "ok",
    },
    {"id": "m2", "from": "nova", "to": "all", "body": "two", "thread_id": "t", "read_by": []},
]


@pytest.fixture
def old(tmp_path, shell):
    assert shell("init", "shared-memory").code == 0
    (tmp_path / "synapse.json").write_text(json.dumps({"messages": OLD}))
    (tmp_path / "cortex").mkdir()
    (tmp_path / "cortex" / "stm.json").write_text(
        json.dumps([{"content": "x", "timestamp": "2026-02-01T00:00:00"}])
    )
    return ("--synapse-json", "synapse.json", "--cortex", "cortex")


def test_it_says_what_it_will_do_and_what_it_did(run, old):
    dry = run("migrate", *old, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert "to write" in dry.out
    assert run("threads", "--json").out.count("thr_") == 0
    done = run("migrate", *old)
    assert "registered: helios, nova" in done.out
    assert "Helios is helios here" in done.out
    told = json.loads(run("migrate", *old, "--json").out)
    rows = {row["kind"]: (row["read"], row["written"], row["there"]) for row in told["counts"]}
    assert (rows["messages"], rows["facts"], rows["acks"]) == ((2, 0, 2), (1, 0, 1), (1, 0, 1))


def test_what_cannot_be_kept_is_told_and_nothing_done(run, old, tmp_path):
    (tmp_path / "synapse.json").write_text(json.dumps([*OLD, {"id": "m3"}]))
    done = run("migrate", *old, "--json")
    assert done.code == 64
    assert json.loads(done.err)["error"]["problems"] == [
        "synapse.json: message 2: it has no sender"
    ]
    assert run("agents", "--json").out.count("helios") == 0
    assert run("migrate").code == 64


def test_the_old_file_again(run, old, tmp_path):
    run("migrate", *old)
    assert json.loads(run("export", "--format", "synapse-json").out) == {"messages": OLD}
    assert run("export", "--format", "synapse-json", "out.json").code == 0
    assert json.loads((tmp_path / "out.json").read_text()) == {"messages": OLD}
    assert run("export", "--format", "synapse-json", "out.json").code == 5
    thread = json.loads(run("threads", "--json", "--status", "all").out)["threads"][0]["id"]
    assert (
        len(
            json.loads(run("export", "--format", "synapse-json", "--thread", thread).out)[
                "messages"
            ]
        )
        == 1
    )
    assert run("export", "--thread", thread).code == 64
    assert run("export", "--format", "synapse-json", "--thread", "thr_none").code == 3


def test_the_mirror_is_kept_by_whoever_acts(run, old, shell, tmp_path):
    run("migrate", *old)
    with open("shared-memory/synapse.yaml", "a", encoding="utf-8") as file:
        file.write("mirror: {synapse_json: ../mirror.json}\n")
    run("trust", "--yes")
    assert shell("send", "--from", "helios", "--to", "nova", "three").code == 0
    bodies = [row["body"] for row in json.loads((tmp_path / "mirror.json").read_text())["messages"]]
    assert bodies == ["one", "two", "three"]
    assert "mirror.json" not in run("doctor", "--json").out
    (tmp_path / "mirror.json").write_text("{}")
    assert "mirror.json is not what the log says" in run("doctor", "--json").out
