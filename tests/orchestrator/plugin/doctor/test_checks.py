"""The doctor of clients: what is broken is named, with how to mend it, and nothing is harmed by
asking.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import synapse
from orchestrator.plugin import daemon
from orchestrator.plugin.daemon import SessionDaemon
from orchestrator.plugin.doctor import checks, programs
from orchestrator.plugin.doctor.checks import examine
from orchestrator.plugin.facts import clients, load
from orchestrator.plugin.hook import hold_daemon
from orchestrator.plugin.install import installer
from orchestrator.plugin.install import place as places
from orchestrator.plugin.install.change import Target
from orchestrator.plugin.sessions.state import hold_session
from synapse.mcp import installation
from synapse.model.agents import Agent
from synapse.system.findings import Finding

Examined = tuple[Target, dict[str, Finding]]
CLIENT = "claude-code"


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    return installed(tmp_path, monkeypatch)


def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A repository with the plugin for Claude Code in it, and a client that says its version."""
    for name in [name for name in os.environ if name.startswith("SYNAPSE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    say_version(tmp_path, load(CLIENT).verified)
    project = tmp_path / "shop"
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    monkeypatch.chdir(project)
    installer.install(place())
    return place().target


def place() -> places.Place:
    return places.place(CLIENT, None, None, False, dict(os.environ))


def say_version(folder: Path, version: str) -> None:
    program = folder / "bin" / "claude"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
    program.chmod(0o755)


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Examined]:
    """An installation that all is well with, and what the doctor found there."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        target = installed(tmp_path_factory.mktemp("well"), monkeypatch)
        yield target, {finding.check: finding for finding in examine(target)}


def test_what_is_well_is_said_to_be(examined: Examined) -> None:
    _, findings = examined
    for check in (
        "client",
        "configuration",
        "workspace",
        "hook",
        "caps",
        "mcp server",
        "adds",
        "view",
    ):
        assert findings[check].verdict == "ok", findings[check]
    assert findings["events"].verdict == "warn"
    assert all(finding.mend for finding in findings.values() if finding.verdict == "fail")


def test_what_no_session_may_read_is_named_with_the_line_that_mends_it(target: Target) -> None:
    """What somebody with wider rights wrote; not what is addressed to one, or is its own."""
    with synapse.open(target.root or "") as memory:
        memory.register(Agent("boss", role="cto"))
        boss = memory.as_agent("boss")
        for text in ("The cache is cold at night.", "The queue is bounded."):
            boss.append(text, "findings/web")
        boss.append("Known to all.", "decisions/web")
        boss.append("Mine.", "agents/boss")
        boss.append("For the boss.", "vault/web", to="agent:boss")
    found = {finding.check: finding for finding in examine(target)}
    assert found["rights"].verdict == "warn"
    assert found["rights"].detail.endswith(": findings/web (2)")
    file = Path(target.root or "") / "agents" / "lead.yaml"
    assert found["rights"].mend == f"add findings/web to `read` in {file}"
    lead = file.read_text().replace("read:", "read: [findings/web,", 1)
    assert "[findings/web, [" in lead
    file.write_text(lead.replace("[findings/web, [", "[findings/web, "))
    assert "rights" not in {finding.check for finding in examine(target)}


def test_asking_leaves_no_run_and_no_entry(examined: Examined) -> None:
    target, _ = examined
    with synapse.open(target.root or "") as memory:
        assert memory.store.index.current.runs() == []
        assert [
            record.kind
            for record in memory.store.log.since(0)
            if record.kind not in ("agent", "settings", "audit")
        ] == []


@pytest.mark.parametrize(
    ("version", "verdict", "word"), [("1.0.3", "warn", "older"), ("99.0", "warn", "newer")]
)
def test_another_version_of_the_client_is_told(
    target: Target, tmp_path: Path, version: str, verdict: str, word: str
) -> None:
    say_version(tmp_path, version)
    (finding,) = checks.program(target, load(CLIENT))
    assert finding.verdict == verdict
    assert word in finding.detail


def test_a_client_that_is_not_there(tmp_path: Path, target: Target) -> None:
    bare = target._replace(env={**target.env, "PATH": "/usr/bin:/bin"})
    finding = next(checks.program(bare, load(CLIENT)))
    assert (finding.verdict, "not on PATH" in finding.detail) == ("fail", True)


def test_an_edited_configuration_is_named(target: Target) -> None:
    path = Path(target.project, ".claude", "settings.local.json")
    path.write_text("{}\n")
    finding = next(checks.configuration(target))
    assert finding.verdict == "fail"
    assert str(path) in finding.detail
    assert finding.mend == "orchestrator install claude-code"
    installer.install(place())
    assert next(checks.configuration(target)).verdict == "ok"


def test_what_others_added_is_no_fault(target: Target) -> None:
    path = Path(target.project, ".claude", "settings.local.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": "opus"}))
    assert next(checks.configuration(target)).verdict == "ok"


def test_a_broken_configuration_is_named_with_its_line(target: Target) -> None:
    path = Path(target.project, ".claude", "settings.local.json")
    path.write_text('{\n "a": }\n')
    assert next(checks.configuration(target)).detail == f"{path}:2: a value is missing"


def test_a_hook_that_cannot_start_is_named(target: Target) -> None:
    broken = target._replace(package="/no/such/folder")
    finding = next(checks.hook(broken, load(CLIENT)))
    assert finding.verdict == "fail"
    assert "orchestrator install claude-code" in finding.mend


def test_a_hook_that_answers_nothing_is_named(target: Target, tmp_path: Path) -> None:
    (tmp_path / "hook.py").write_text("print('{}')\n")
    finding = next(checks.hook(target._replace(package=str(tmp_path)), load(CLIENT)))
    assert (finding.verdict, "without the memory" in finding.detail) == ("fail", True)


def test_the_installed_hook_says_nothing_to_what_it_does_not_know(target: Target) -> None:
    assert programs.try_unknown_event(target, load(CLIENT)).problem == ""
    Path(target.hook).write_text("#!/bin/sh\necho '{}'\n")
    assert "was answered" in programs.try_unknown_event(target, load(CLIENT)).problem
    Path(target.hook).write_text("#!/bin/sh\nexit 2\n")
    assert "ended with 2" in programs.try_unknown_event(target, load(CLIENT)).problem


def test_the_hook_goes_on_without_its_python(target: Target) -> None:
    gone = place()._replace(target=target._replace(python="/no/such/python"))
    installer.install(gone)
    assert programs.try_unknown_event(target, load(CLIENT)).problem == ""


def test_when_events_came_is_said(target: Target) -> None:
    with hold_session(target.root or "", CLIENT, "a session") as session:
        session.fired["SessionStart"] = 1.0
    finding = next(checks.events(target, load(CLIENT)))
    assert (finding.verdict, "SessionStart" in finding.detail, "d ago" in finding.detail) == (
        "ok",
        True,
        True,
    )


def test_a_start_that_never_came_is_told(target: Target) -> None:
    with hold_session(target.root or "", CLIENT, "a session") as session:
        session.fired["Stop"] = 1.0
    assert "SessionStart never came" in next(checks.events(target, load(CLIENT))).detail


def test_faults_of_the_hook_are_told(target: Target) -> None:
    log = Path(target.root or "", "runs", ".hooks.log")
    log.write_text("2026-01-01T00:00:00Z claude-code 3 ms ValueError: a bad thing\n")
    finding = list(checks.faults(target))[-1]
    assert (finding.verdict, "a bad thing" in finding.detail) == ("warn", True)


def test_a_daemon_is_looked_at(target: Target) -> None:
    async def beside(examine: Callable[[], Any]) -> tuple[SessionDaemon, Any]:
        with synapse.open(target.root or "") as memory:
            served = SessionDaemon(memory)
            up = asyncio.create_task(served.run())
            while not os.path.exists(served.socket):
                await asyncio.sleep(0.01)
            findings = await asyncio.to_thread(lambda: list(examine()))
            served.code.is_current = lambda: False  # type: ignore[method-assign]
            findings += await asyncio.to_thread(lambda: list(examine()))
            served.down.set()
            await up
        return served, findings

    def examine() -> Iterator[Finding]:
        return checks.daemon(target, load(CLIENT))

    (absent,) = examine()
    assert (absent.verdict, absent.detail[:6]) == ("ok", "not up")
    served, (up, through, old) = asyncio.run(beside(examine))
    assert (up.verdict, up.detail) == ("ok", f"up for sessions, process {os.getpid()}")
    assert (through.verdict, through.check) == ("ok", "hook, daemon")
    assert served.hooks > 0
    assert (old.verdict, "other code" in old.detail) == ("warn", True)
    lock = hold_daemon(target.root or "")
    os.makedirs(os.path.dirname(served.socket), exist_ok=True)
    with daemon._bound(served.socket):  # it listens, and says nothing
        (silent,) = examine()
    os.close(lock or 0)
    assert (silent.verdict, "does not answer" in silent.detail) == ("warn", True)


def test_settings_that_cannot_be_are_named(target: Target) -> None:
    with open(os.path.join(target.root or "", "synapse.yaml"), "a", encoding="utf-8") as file:
        file.write("clients:\n  leed: boss\n")
    finding = next(checks.workspace(target))
    assert finding.verdict == "fail"
    assert "did you mean lead?" in finding.detail


def test_the_view_is_counted(target: Target) -> None:
    *_, view = checks.cost(target, load(CLIENT))
    assert view.detail == "none: the memory has nothing to say yet"
    with synapse.open(target.root or "") as memory:
        memory.register(Agent("boss", role="cto"))
        memory.as_agent("boss").append(
            "the login is broken " * 20, namespace="blockers/all", priority="critical"
        )
    *_, view = checks.cost(target, load(CLIENT))
    count = int(view.detail.split()[0])
    assert count > 80


@pytest.mark.parametrize("client", clients())
def test_what_the_plugin_adds_is_told_of_every_client(client: str) -> None:
    raw = load(client).raw
    for measured in (raw, raw.get("older", raw)):
        tools, listing, own = (*measured["adds"].values(), measured["baseline"]["request"])
        first = checks.describe_added(measured).partition(";")[0]
        assert f"{listing:,} " in first
        assert first.endswith(f" = {100 * (tools + listing) / own:.1f} % of its own {own:,}")
        assert len(f"  ok   adds: {first};") <= 80


def test_what_older_models_are_sent_is_told_too(target: Target) -> None:
    told = {finding.check: finding.detail for finding in checks.cost(target, load("codex"))}
    assert told["adds"].endswith(f"; measured with {load('codex').verified}")
    assert "tokens of tools" not in told["adds"]
    assert "tokens of tools" in told["adds, older models"]


def test_an_mcp_server_that_does_not_start_is_named(target: Target) -> None:
    Path(target.mcp).write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    finding = next(checks.cost(target, load(CLIENT)))
    assert (finding.verdict, finding.detail) == ("fail", "the server ended: no such module")


def test_nothing_installed_is_named(target: Target) -> None:
    installer.uninstall(place())
    client, configuration = examine(target)  # and nothing else
    assert client.verdict == "ok"
    assert (configuration.verdict, configuration.mend) == (
        "fail",
        "orchestrator install claude-code",
    )


def test_a_server_without_its_package_is_mended_by_that_package(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(target.mcp).write_text("#!/bin/sh\nexit 1\n")
    assert next(iter(checks.cost(target, load(CLIENT)))).mend == "orchestrator install claude-code"
    monkeypatch.setitem(sys.modules, "mcp_types", None)  # as if it were not installed
    assert next(iter(checks.cost(target, load(CLIENT)))).mend == installation()
