import os
import sys

import pytest

import synapse


@pytest.fixture
def root(tmp_path, monkeypatch):
    path = str(tmp_path / "my team")
    with synapse.init(path) as mem:
        with open(f"{path}/synapse.yaml", "a") as file:
            file.write('schedule: {zone: Europe/Berlin, defrag: "03:15"}\n')
        mem.register(synapse.Agent("eng-a", write=("api/*",), read=("api/*",)))
        mem.as_agent("eng-a").append("text", "api/x")
    monkeypatch.setenv("SYNAPSE_ROOT", path)
    return path


def test_what_is_next_and_what_was(run, root):
    told = run("schedule", "--json").json
    assert (told["zone"], told["at"], told["daemon"], told["runs"]) == (
        "Europe/Berlin",
        "03:15",
        None,
        [],
    )
    assert told["next"]["local"][11:16] == "03:15"
    first = run("schedule").out.splitlines()[0]
    assert first.startswith(
        f"next: the nightly run of {told['next']['date']}, at {told['next']['date']} 03:15 Europe/Berlin"
    )
    assert first.endswith("by no process yet: start `orchestrator up`, or see --systemd and --cron")
    done = run("schedule", "--run")
    assert (done.code, done.out.split()[-2:]) == (0, ["is", "done"])
    assert run("schedule", "--run").out.endswith("was done before\n")
    assert run("schedule", "--run", "--quiet").out == ""
    (night,) = run("schedule", "--json").json["runs"]
    assert (night["job"], night["state"], night["told"]["acts"]) == ("night", "done", 0)
    assert night["holders"] == [f"{os.uname().nodename}:{os.getpid()}"]
    assert 0 <= night["seconds"] < 60
    assert run("schedule").out.splitlines()[2].split()[:3] == [night["date"], "night", "done"]
    assert run("schedule", "--days", "0").out.count("\n") == 1


def test_units_that_run_it(run, root):
    words = f"{sys.executable} -P -m orchestrator --root '{root}' schedule --run"
    assert run("schedule", "--cron").out.splitlines()[1] == f"*/10 * * * * {words} --quiet"
    unit = run("schedule", "--systemd").out
    assert "OnCalendar=*-*-* 03:15:00 Europe/Berlin\n" in unit
    assert "Persistent=true\n" in unit
    assert f'ExecStart={sys.executable} -P -m orchestrator --root "{root}" schedule --run\n' in unit
    assert "synapse-night-my-team.timer" in unit
    assert run("schedule", "--systemd", "--cron").code == 64


def test_a_workspace_without_nights(run, root):
    with open(f"{root}/synapse.yaml") as file:
        text = file.read()
    with open(f"{root}/synapse.yaml", "w") as file:
        file.write(text.replace('"03:15"', "off"))
    assert (
        run("schedule").out
        == "there is no nightly job: synapse.yaml says `schedule: {defrag: off}`\n"
    )
    assert run("schedule", "--json").json["next"] is None
    assert run("schedule", "--run").code == run("schedule", "--systemd").code == 3
