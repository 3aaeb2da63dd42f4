"""The block of AGENTS.md: short, in its place, up to date, and gone to the byte."""

from __future__ import annotations

import asyncio
import os
from datetime import date, time
from pathlib import Path

import pytest

from orchestrator.nightly.schedule import Plan
from orchestrator.plugin.install import installer
from orchestrator.plugin.install import place as places
from orchestrator.plugin.install.clients import agents_md
from synapse.system.tokens import Tokens

MINE = "# Shop\n\nBe kind.\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SYNAPSE_ROOT", raising=False)
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "AGENTS.md").write_text(MINE)
    monkeypatch.chdir(folder)
    installer.install(place())
    return folder


def place() -> places.Place:
    return places.place(places.AGENTS_MD, None, None, False, dict(os.environ))


def test_the_block_costs_under_200_tokens(project: Path) -> None:
    text = (project / "AGENTS.md").read_text().removeprefix(MINE)
    assert "--namespace status/shop" in text
    assert Tokens().count(text) < 200


def test_it_names_no_place_of_this_machine(project: Path) -> None:
    assert str(project) not in (project / "AGENTS.md").read_text()


def test_its_commands_work(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import shlex

    from synapse.cli import main

    text = (project / "AGENTS.md").read_text()
    commands = [part for part in text.split("`") if part.startswith("synapse ")]
    assert len(commands) == 3
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, command


def test_settings_change_it_at_night(project: Path) -> None:
    with open(project / "shared-memory" / "synapse.yaml", "a", encoding="utf-8") as file:
        file.write("clients:\n  default: builder\n")
    (job,) = agents_md.nightly(str(project / "shared-memory"), Plan("UTC", time(2, 30)))
    assert asyncio.run(job.act(date(2026, 1, 1)))
    assert "--agent builder" in (project / "AGENTS.md").read_text()
    installer.uninstall(place())
    assert (project / "AGENTS.md").read_text() == MINE


def test_a_block_that_was_removed_stays_away(project: Path) -> None:
    (project / "AGENTS.md").write_text(MINE)
    assert (
        agents_md.refresh(places.target_in(str(project / "shared-memory"), places.AGENTS_MD)) == []
    )
    assert (project / "AGENTS.md").read_text() == MINE
