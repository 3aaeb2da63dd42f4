"""`synapse doctor --security`: a sound workspace has nothing to be told of, and each opening is
named with what to do about it.
"""

import json
import os
import time

import pytest

from synapse.system import home
from tests.accepted import accept


def findings(run):
    done = run("doctor", "--security", "--json")
    found = json.loads(done.out)
    assert found["ok"] == (done.code == 0)
    return [(each["check"], each["verdict"], each["detail"]) for each in found["checks"]]


def worst(run, check):
    """The findings of one check that are not ok."""
    return [
        (verdict, detail)
        for name, verdict, detail in findings(run)
        if name == check and verdict != "ok"
    ]


@pytest.fixture
def sound(team, wrote, monkeypatch, tmp_path):
    """A workspace that nobody else reads, with an entry of an agent in it."""
    monkeypatch.setenv("SYNAPSE_HOME", str(tmp_path / "person"))
    accept(team)
    wrote()
    os.chmod(team, 0o700)
    for folder, _, names in os.walk(team):
        for name in names:
            os.chmod(os.path.join(folder, name), 0o600)
    return team


def test_a_sound_workspace_has_nothing_to_be_told_of(sound, run):
    found = findings(run)
    assert {verdict for _, verdict, _ in found} == {"ok"}
    assert len({check for check, _, _ in found}) == 9
    shown = run("doctor", "--security")
    assert shown.out.splitlines()[0].split() == ["verdict", "check", "detail"]


def open_to_all(root):
    os.chmod(root / "journal", 0o777)


def readable(root):
    os.chmod(root, 0o755)
    os.chmod(root / "journal", 0o755)


def declarations(root):
    os.chmod(root / "agents", 0o757)


def a_group(root):
    os.chmod(root / "agents", 0o770)


def a_link(root):
    (root / "views").rename(root / "elsewhere")
    (root / "views").symlink_to(root / "elsewhere")


def a_want(root):
    with open(root / "synapse.yaml", "a", encoding="utf-8") as file:
        file.write("semantic: {embedder: openai, url: 'http://127.0.0.1:1/v1'}\n")


def decisions(root):
    home.write("trust/x.json", b"{}")
    os.chmod(os.path.join(home.operator_home(), "trust"), 0o755)


@pytest.mark.parametrize(
    ("opening", "check", "verdict", "advice"),
    [
        (open_to_all, "access", "fail", "chmod o-w"),
        (readable, "access", "warn", "chmod -R o-rwx"),
        (declarations, "operator's files", "fail", "chmod o-w"),
        (a_group, "operator's files", "warn", "chmod g-w"),
        (a_link, "links", "fail", "symbolic link"),
        (a_want, "asks for", "warn", "synapse trust"),
        (decisions, "your folder", "fail", "chmod go-rwx"),
    ],
)
def test_an_opening_is_named_with_what_to_do(sound, run, opening, check, verdict, advice):
    opening(sound)
    told = worst(run, check)
    assert {each for each, _ in told} == {verdict}
    assert any(advice in detail for _, detail in told)


def test_what_is_trusted_is_named(sound, run):
    a_want(sound)
    assert run("trust", "--yes").code == 0
    assert worst(run, "asks for") == []
    assert any(
        check == "asks for" and detail.startswith("trusted: send:")
        for check, _, detail in findings(run)
    )


def test_rights_of_everybody_are_named(sound, run):
    run("register", "--id", "boss", "--role", "cto")
    assert worst(run, "rights") == []
    run("register", "--id", "other", "--role", "cto")
    assert "boss, other have authority 100" in worst(run, "rights")[0][1]
    run("register", "--id", "free", "--role", "engineer", "--write", "*")
    assert any("free may write in every" in text for _, text in worst(run, "rights"))


def test_what_nobody_vouched_for_and_what_waits_is_counted(sound, run):
    folder = sound / "entries" / "status"
    folder.mkdir(exist_ok=True)
    (folder / "x.md").write_text(
        "---\nid: syn-2026-02-01-001\nfrom: nobody-known\ntimestamp: 2026-01-01T00:00:00Z\n"
        "namespace: status\npriority: info\nttl: never\n---\nHello.\n",
        encoding="utf-8",
    )
    time.sleep(0.3)  # a file is taken in once it has not changed for a while
    assert run("write", "--from", "junior", "--namespace", "api/new", "Wait.").code == 0
    (verdict, text), *_ = worst(run, "unverified")
    assert verdict == "warn"
    assert text.startswith("1 entry has an author whom nobody knows")
    assert worst(run, "review")[0][1].startswith("1 entry waits")
