"""`orchestrator audit`: one screen, JSON and one page of what recorded sessions cost."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

KEY = "sk-ant-api03-" + "A1b2C3d4" * 11 + "-AAAAAAAA"
STAMP = "2026-01-05T10:{:02}:00Z"


@pytest.fixture
def sessions(tmp_path):
    """Two sessions that make the same calls; a command of theirs has a key in it."""
    for session in ("one", "two"):
        rows = []
        for n in range(6):
            usage = {"input_tokens": 100_000, "output_tokens": 1_000}
            command = f"\ud800 curl -H 'x-api-key: {KEY}' https://example.org/<b>{n % 2}"
            use = {"type": "tool_use", "id": f"{session}{n}", "name": "Bash"}
            use |= {"input": {"command": command}}
            message = {"role": "assistant", "id": f"m-{session}{n}", "model": "claude-sonnet-4-5"}
            given = {"type": "tool_result", "tool_use_id": f"{session}{n}", "content": "y" * 4_000}
            rows += [
                {"type": "assistant", "message": message | {"usage": usage, "content": [use]}},
                {"type": "user", "message": {"role": "user", "content": [given]}},
            ]
        common = {"sessionId": session, "cwd": f"/u/ada/shop-{session}"}
        text = "".join(
            json.dumps(row | common | {"uuid": f"{session}-{n}", "timestamp": STAMP.format(n)})
            + "\n"
            for n, row in enumerate(rows)
        )
        (tmp_path / "sessions").mkdir(exist_ok=True)
        (tmp_path / "sessions" / f"{session}.jsonl").write_text(text)
    return tmp_path / "sessions"


def test_one_screen_of_eighty_columns(run, sessions):
    shown = run("audit", sessions)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24
    assert lines[0].startswith("1 day, 2 sessions: $3.78, of which ")
    assert any(line.split()[:3] == ["all", "12", "1.2M"] for line in lines)


def test_as_json(run, sessions):
    shown = run("audit", sessions, "--json")
    assert shown.json["sentence"].startswith("1 day, 2 sessions: $3.78")
    assert shown.json["paid"]["fresh"] == 1_200_000
    assert shown.json["by"]["project"].keys() == {"shop-one", "shop-two"}
    assert shown.json["repeats"][0]["who"] == "itself"


def test_one_page_that_holds_all_of_it(run, sessions, tmp_path):
    assert run("audit", sessions, "--html", tmp_path / "audit.html").code == 0
    text = (tmp_path / "audit.html").read_text()
    assert "$3.78" in text
    assert re.findall(r"(?:src|href)=|<script|<link|@import|url\(", text) == []
    assert "<b>0" not in text.replace("<li><b>", "")
    assert "&lt;b&gt;" in text


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_no_secret_and_no_home_folder_is_shown(run, sessions, tmp_path, form):
    words = {"text": (), "json": ("--json",), "html": ("--html", tmp_path / "a.html")}[form]
    shown = run("audit", sessions, *words).out
    text = (tmp_path / "a.html").read_text() if form == "html" else shown
    assert KEY[:20] not in text
    assert "/u/ada" not in text
    if form != "text":
        assert "[secret: " in text


def test_where_clients_keep_their_sessions(run, sessions, tmp_path):
    assert "name where they lie" in run("audit").err
    folder = tmp_path / "home/.claude/projects"
    folder.mkdir(parents=True)
    sessions.rename(folder / "-srv-shop")
    assert run("audit").out.strip() == "No recorded session was found."  # they are older
    assert "2 sessions" in run("audit", "--since", "2026-01-01").out


def test_a_path_that_is_not_there(run, tmp_path):
    shown = run("audit", tmp_path / "nowhere")
    assert shown.code != 0
    assert "nowhere: No such file" in shown.err


def test_progress_is_shown_on_a_terminal_and_wiped(sessions):
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "orchestrator", "audit", sessions, "--replay", "0"]
    env = os.environ | {"TERM": "xterm"}
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=slave, env=env, check=True)
    os.close(slave)
    shown = os.read(master, 10_000)
    os.close(master)
    assert b"0 % of 0 MB" in shown
    assert shown.endswith(b"\r\x1b[K")
    assert done.stdout.startswith(b"1 day, 2 sessions")
