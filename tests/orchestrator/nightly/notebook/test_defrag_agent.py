"""An agent's own folder: tidied with a backup and a log, and put back where the proof fails."""

import fcntl
import json
import os
from datetime import datetime

import pytest

from orchestrator.nightly.notebook.defrag_agent import (
    apply,
    defrag_agent,
    install,
    nap_due,
    read,
    uninstall,
)
from orchestrator.nightly.notebook.notes import tidied
from synapse.errors import Conflict, InvalidEntry, NotFound

NOW = datetime(2026, 2, 10, 2, 30)


@pytest.fixture
def folder(tmp_path):
    files = {
        "MEMORY.md": "## Projects\n- shop\n- shop\n",
        "memory/2026-01-05.md": "- an old note\r\n",
        "memory/2026-02-09.md": "- Lesson: read the log\n",
        "memory/goals.json": "{}",
    }
    for name, text in files.items():
        path = tmp_path / "scout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")
    return str(tmp_path / "scout")


def files(folder):
    """All that is there, but for what every cycle adds to."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(place, name), folder)
            if "defrag" not in path:
                with open(os.path.join(place, name), newline="") as file:
                    found[path] = file.read()
    return found


def test_a_folder_that_is_named_from_where_one_stands(folder, monkeypatch):
    monkeypatch.chdir(os.path.dirname(folder))
    assert defrag_agent("scout", NOW).verdict == "passed"
    monkeypatch.chdir(folder)
    assert install(".", "true")
    assert uninstall(".")


def test_a_cycle(folder):
    before = files(folder)
    report = defrag_agent(folder, NOW)
    assert (report.verdict, report.added, report.removed, report.filed) == ("passed", 1, 1, 1)
    after = files(folder)
    assert (
        after["MEMORY.md"]
        == "## Projects\n- shop\n\n## Lessons Learned\n\n- Lesson: read the log\n"
    )
    assert "- an old note\r\n" in after["memory/archive/2026-01.md"]
    notes = [name for name in before if name != "MEMORY.md"]
    assert {name: after[name] for name in notes} == {name: before[name] for name in notes}
    with open(f"{folder}/memory/defrag-log.md") as log:
        text = log.read()
    assert text.startswith("## 2026-02-10 02:30 — Defrag Complete\n")
    assert "MEMORY.md: 6 lines (target: <60)" in text
    with open(f"{folder}/memory/defrag-history.jsonl") as history:
        row = json.loads(history.read())
    assert row["verdict"] == {"passed": True, "warnings": [], "critical": []}
    assert (row["metrics"]["memory_additions"], row["overlap_pct"]) == (1, 100.0)
    (kept,) = os.listdir(f"{folder}/memory/.defrag-backups")
    with open(f"{folder}/memory/.defrag-backups/{kept}/MEMORY.md") as file:
        assert file.read() == before["MEMORY.md"]


def test_again_changes_nothing(folder):
    defrag_agent(folder, NOW)
    after = files(folder)
    assert defrag_agent(folder, NOW.replace(hour=3)).added == 0
    assert files(folder) == after


def test_what_fails_its_proof_is_put_back(folder):
    before, there = read(folder), files(folder)
    doctored = tidied(before, NOW.date())._replace(memory="# Memory\n- I know better\n")
    report = apply(folder, before, doctored, NOW)
    assert (report.verdict, report.added) == ("failed", 0)
    assert any("- shop" in line for line in report.critical)
    assert files(folder) == there
    with open(f"{folder}/memory/defrag-log.md") as log:
        assert "Rolled Back" in log.read()


def test_what_cannot_be_written_is_put_back(folder):
    before, there = read(folder), files(folder)
    plan = tidied(before, NOW.date())
    out_of_reach = plan._replace(archive={**plan.archive, "no/such": "page"})
    os.makedirs(f"{folder}/memory/archive")
    with open(f"{folder}/memory/archive/no", "w") as file:
        file.write("in the way")
    report = apply(folder, before, out_of_reach, NOW)
    assert report.verdict == "failed"
    os.unlink(f"{folder}/memory/archive/no")
    assert files(folder) == there


def test_what_the_agent_wrote_meanwhile_is_not_overwritten(folder):
    before = read(folder)
    plan = tidied(before, NOW.date())
    with open(f"{folder}/MEMORY.md", "a") as file:
        file.write("- just now\n")
    there = files(folder)
    with pytest.raises(Conflict, match="just now"):
        apply(folder, before, plan, NOW)
    assert files(folder) == there


def test_one_at_a_time_and_only_what_can_be_read(folder, tmp_path):
    with open(f"{folder}/memory/.defrag.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Conflict, match="already"):
            defrag_agent(folder, NOW)
    with pytest.raises(NotFound):
        defrag_agent(str(tmp_path / "nobody"), NOW)
    with open(f"{folder}/MEMORY.md", "wb") as file:
        file.write(b"\xff")
    with pytest.raises(InvalidEntry, match="UTF-8"):
        defrag_agent(folder, NOW)


def test_a_nap_is_due_above_three_quarters():
    assert [nap_due(context) for context in (None, 0.5, 0.75, 0.76, 1.0)] == [
        True,
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("page", [None, "# Cycle\n", "no line end", "# Cycle\n\n\n"])
def test_the_block_comes_and_goes(folder, page):
    path = f"{folder}/DEFRAG.md"
    if page is not None:
        with open(path, "w") as file:
            file.write(page)
    assert install(folder, "synapse --root /srv/team defrag")
    assert not install(folder, "synapse --root /srv/team defrag")
    assert install(folder, "synapse --root /srv/other defrag")
    with open(path) as file:
        text = file.read()
    assert text.count("synapse:begin") == 1
    assert "    synapse --root /srv/other defrag\n" in text
    assert uninstall(folder)
    assert not uninstall(folder)
    if page is None:
        assert not os.path.exists(path)
    else:
        with open(path) as file:
            assert file.read() == page
