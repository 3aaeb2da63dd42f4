import json
import os
import time

import pytest

from synapse.cli import doctor
from synapse.cli.checks import probes
from synapse.model.settings import PROTOCOL


def findings(run, *words):
    done = run("doctor", "--json", *words)
    found = json.loads(done.out)
    assert found["ok"] == (done.code == 0)
    return [(each["check"], each["verdict"], each["detail"]) for each in found["checks"]]


def test_a_sound_workspace_is_healthy(wrote, run):
    wrote()
    found = findings(run)
    assert {verdict for _, verdict, _ in found} <= {"ok"}
    checks = {check for check, _, _ in found}
    assert checks >= {
        "system",
        "python",
        "sqlite",
        "protocol",
        "file system",
        "link",
        "lock",
        "sync",
        "notify",
    }
    assert checks >= {"workspace", "index", "journal", "agents"}
    assert ("protocol", "ok", f"this software reads protocols up to {PROTOCOL}") in found
    shown = run("doctor")
    assert shown.code == 0
    assert shown.out.splitlines()[0].split() == ["verdict", "check", "detail"]


def test_without_a_workspace_the_machine_is_looked_at(run):
    found = findings(run)
    assert found[-1][:2] == ("workspace", "fail")
    assert "synapse init" in found[-1][2]
    assert ("link", "ok", "works") in found


@pytest.mark.parametrize(
    ("platform", "verdict"),
    [("linux", "ok"), ("darwin", "ok"), ("win32", "fail"), ("sunos5", "warn")],
)
def test_platforms(platform, verdict):
    assert next(doctor.machine(platform)).verdict == verdict


def test_on_windows_nothing_else_is_tried(monkeypatch):
    machine = [doctor.Finding("system", "fail", "Windows")]
    monkeypatch.setattr(doctor, "machine", lambda: machine)
    assert doctor.examine("/nowhere", lambda: pytest.fail("it was opened")) == machine


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p"])
def test_network_file_systems_are_warned_of(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(probes, "file_system_of", lambda path: kind)
    first = next(doctor.file_system(str(tmp_path)))
    assert (first.check, first.verdict) == ("file system", "warn")
    assert kind in first.detail


def test_a_probe_that_fails_is_told(tmp_path, monkeypatch):
    def fail(place):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setitem(probes.PROBES, "link", fail)
    monkeypatch.setitem(probes.PROBES, "notify", lambda place: "no pipes")
    found = {finding.check: finding for finding in doctor.file_system(str(tmp_path))}
    assert found["link"].verdict == "fail"
    assert "Permission denied" in found["link"].detail
    assert found["notify"].verdict == "warn"


def test_a_workspace_open_to_all_is_warned_of(team, run):
    os.chmod(team, 0o777)
    assert any(check == "access" and verdict == "warn" for check, verdict, _ in findings(run))


def test_a_damaged_file_is_named(wrote, run, team):
    id = wrote()
    (team / "entries" / "api" / "endpoints" / f"{id}.md").write_text("changed")
    found = [
        detail
        for check, verdict, detail in findings(run)
        if (check, verdict) == ("journal", "fail")
    ]
    assert id in found[0]


def test_a_damaged_index_is_named(wrote, run, team):
    wrote()
    for path in (team / ".index").iterdir():
        if path.name.startswith("brain.db"):
            path.write_bytes(b"not a database" * 1000)
    done = run("doctor")
    assert "Traceback" not in done.err
    assert done.code in (0, 6)


def test_an_agents_file_that_cannot_be_read_is_named(team, run):
    (team / "agents" / "broken.yaml").write_text("agent: [")
    found = [
        detail for check, verdict, detail in findings(run) if (check, verdict) == ("agents", "fail")
    ]
    assert "agents/broken.yaml" in found[0]


def drop(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def text_of(author, namespace):
    return (
        f"---\nid: syn-2026-02-01-001\nfrom: {author}\ntimestamp: 2026-02-01T01:00:00Z\n"
        f"namespace: {namespace}\npriority: info\nttl: never\n---\n\nhear me\n"
    )


def test_strangers_and_what_was_put_aside_are_told(team, run):
    drop(team / "entries" / "api" / "one.md", text_of("stranger", "api"))
    drop(team / "entries" / "api" / "two.md", "no front matter at all\n")
    time.sleep(0.3)  # a file is taken in once it has not changed for a while
    run("read")
    found = findings(run)
    assert ("authors", "warn", "stranger wrote 1 entry and is not registered") in found
    aside = [detail for check, _, detail in found if check == "quarantine"]
    assert aside[0].startswith("entries/api/two.md: ")


def test_many_and_deep_namespaces_are_warned_of(team, run):
    run("register", "--id", "everywhere", "--write", "*")
    for n in range(11):
        run("write", "--from", "everywhere", "--namespace", f"top{n}", "x")
    run("write", "--from", "everywhere", "--namespace", "a/b/c/d", "x")
    found = [
        detail
        for check, verdict, detail in findings(run)
        if (check, verdict) == ("namespaces", "warn")
    ]
    assert found[0].startswith("12 at the top level")
    assert found[1] == "a/b/c/d is deeper than 3 levels"


def test_a_newer_protocol_is_refused_with_advice(team, run):
    (team / "synapse.yaml").write_text(f"protocol: {PROTOCOL + 1}\n")
    check, verdict, detail = findings(run)[-1]
    assert (check, verdict) == ("workspace", "fail")
    assert "upgrade" in detail


def test_long_lists_are_counted():
    found = list(doctor.some("check", "warn", [str(n) for n in range(8)], "mend them"))
    assert [finding.detail for finding in found] == ["0", "1", "2", "3", "4", "3 more; mend them"]
    assert list(doctor.some("check", "warn", [], "mend them")) == []


def test_conformance_of_our_own_workspace(wrote, run, team):
    wrote()
    found = findings(run, "--conformance", team)
    assert found[0] == ("conformance", "ok", f"{team} keeps to protocol {PROTOCOL}")
    assert {verdict for _, verdict, _ in found} <= {"ok", "warn"}


def test_conformance_names_what_is_wrong(run, tmp_path):
    drop(tmp_path / "theirs" / "entries" / "api" / "one.md", "no front matter at all\n")
    done = run("doctor", "--conformance", tmp_path / "theirs")
    assert done.code == 6
    assert "entries/api/one.md" in done.out
    assert "fail" in done.out
    assert run("doctor", "--conformance", tmp_path / "missing").code == 6


def test_keys_values_and_roles_that_are_not_known_are_named(team, run):
    with open("shared-memory/synapse.yaml", "a", encoding="utf-8") as file:
        file.write("limit: {run: {usd: 0.01}}\nbackup: {dri: /srv}\nreputation: maybe\n")
    with open("shared-memory/agents/old.yaml", "w", encoding="utf-8") as file:
        file.write("agent: {id: old, role: enginer}\n")
    with open("shared-memory/agents/new.yaml", "w", encoding="utf-8") as file:
        file.write("agent: {id: new, rol: cto}\n")
    found = [
        (check, verdict, detail) for check, verdict, detail in findings(run) if verdict != "ok"
    ]
    told = [detail for check, verdict, detail in found if (check, verdict) == ("settings", "fail")]
    assert [text for text in told if "limit is not known: did you mean limits?" in text]
    assert [text for text in told if "backup.dri is not known: did you mean dir?" in text]
    assert [text for text in told if "reputation 'maybe' is not valid" in text]
    assert ("agents", "fail") in {(check, verdict) for check, verdict, _ in found}
    (role,) = [detail for check, verdict, detail in found if "enginer" in detail]
    assert "agents/old.yaml: there is no role 'enginer': did you mean engineer?" in role
    assert run("read", "--agent", "old").code == 3, "nobody is given an engineer's rights by a slip"


def test_what_stops_no_run_is_not_said_to_stop_runs(team, run):
    with open("shared-memory/synapse.yaml", "a", encoding="utf-8") as file:
        file.write("reputation: maybe\n")
    assert "runs do not begin" not in run("doctor").out
    with open("shared-memory/synapse.yaml", "a", encoding="utf-8") as file:
        file.write("limit: {run: {usd: 1}}\n")
    assert "runs do not begin" in run("doctor").out


def test_a_mistake_in_a_file_is_said_once_by_every_command(team, run):
    with open("shared-memory/synapse.yaml", "a", encoding="utf-8") as file:
        file.write("limit: {run: {usd: 0.01}}\nsemantic: {embedder: word2vec}\n")
    for words in (
        ("read",),
        ("write", "--from", "eng-backend", "--namespace", "api/x", "text"),
        ("agents",),
    ):
        done = run(*words)
        assert (done.code, done.err.count("\n")) == (0, 1)
        assert done.err.startswith("synapse.yaml: ")
        assert done.err.endswith("; 1 more; `synapse doctor` names all\n")
        assert run(*words, "--json").err == ""
