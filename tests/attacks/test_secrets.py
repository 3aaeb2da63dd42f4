"""Secrets that agents, people and tools write: none is on the disk afterwards, in whatever field or
file it was, and their author is told.
"""

import json
import os
import random
import sqlite3
import time
from pathlib import Path

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from synapse import cli
from synapse.mail.mailbox import Mail
from synapse.model.agents import Agent
from synapse.model.records import Record
from synapse.privacy import secrets
from synapse.privacy.words import each_text
from tests.privacy.made import plain_in
from tests.privacy.made import secrets as made

HEAD = "from: eng-a\ntimestamp: 2026-02-01T01:00:00Z\npriority: info\n"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def memory(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as memory:
        for id in ("eng-a", "eng-b"):
            memory.register(Agent(id, "engineer", read=("*",), write=("*",)))
        yield memory


def taken_in(memory):
    """Wait until a dropped file is in the log, or in quarantine."""
    end, before = time.monotonic() + 20, memory.store.log.last()
    while memory.store.log.last() == before and time.monotonic() < end:
        time.sleep(0.05)
        memory.store.refresh(whole=True)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_thousand_secrets_leave_no_byte(memory, seed):
    me, texts = memory.as_agent("eng-a"), []
    for number, (_, text, secret) in enumerate(made(1_000, seed)):
        texts.append(secret)
        if number % 4:
            me.append(text, f"api/n{number % 7}")
        else:
            fields = {"ids": [], "reason": text, "deep": [{"x": text}]}
            memory.store.commit.append(Record.new("archive", "eng-a", fields))
    me.briefing(budget=2_000)
    me.search("deploy")
    assert plain_in(memory.store.root, texts) == set()
    assert all(secret not in line for secret in texts[:50] for line in memory.export())


def test_the_check_finds_a_planted_secret(memory):
    (_, text, secret) = next(made(1))
    planted = Path(memory.store.root, ".index", "planted.db")
    connection = sqlite3.connect(planted)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("CREATE TABLE t (x)")
    connection.execute("INSERT INTO t VALUES (?)", (text,))
    connection.commit()
    assert {Path(path).name for path, _ in plain_in(memory.store.root, [secret])} == {
        "planted.db-wal"
    }
    connection.close()


@pytest.mark.parametrize(
    "before", ["the secret:\n", "password:\n\n", "token is ", "my key = secret: ", "pass =\n"]
)
def test_a_secret_behind_a_name_that_was_given_nothing_is_found(memory, before):
    given = "password=hunter22!x"
    assert "hunter22" not in secrets.mask(before + given)
    assert "hunter22" not in secrets.mask(f"{before}\n{given}")
    entry = memory.as_agent("eng-a").append(before, "api/keys", evidence=given)
    assert "hunter22" not in entry.evidence


@pytest.mark.parametrize("seed", [1, 2])
def test_one_look_at_all_texts_of_a_value_finds_as_much_as_one_at_each(seed):
    chance, held = random.Random(seed), 0
    texts = [text for _, text, _ in made(300, seed)]
    names = ["api_key", "token", "ids", "the secret", "password is", "x"]
    for _ in range(500):
        picked = [chance.choice([*texts[:9], *names, *9 * [""]]) for _ in range(4)]
        value = {chance.choice(names): picked[0], "deep": [{picked[1]: 3}, (picked[2],)]}
        value[chance.choice(names)] = {chance.choice(names): picked[3]}
        looked = secrets.mask_deep(value)
        assert looked == secrets._masked(value)
        held += looked != value
    assert 300 < held < 500


def test_every_field_of_an_entry_is_masked(memory):
    key = "AKIA" + "Q7" * 8
    entry = memory.as_agent("eng-a").append(
        f"use {key}", "api/keys", topic=f"the {key}", evidence=f"env {key}", tags=[f"x {key}"]
    )
    told = "[secret: aws access key]"
    assert entry.body == f"use {told}"
    assert (entry.topic, entry.evidence) == (f"the {told}", f"env {told}")
    mail = Mail(memory.as_agent("eng-a"))
    mail.send("eng-b", f"take {key}", subject=f"Subject {key}")
    assert plain_in(memory.store.root, [key]) == set()


def test_a_dropped_file_is_replaced(memory):
    root, key = Path(memory.store.root), "ghp_" + "aB3" * 12
    text = f"---\n{HEAD}tags: [{key}]\n---\nuse {key}, and then more"
    (root / "entries/api").mkdir()
    dropped = root / "entries/api/dropped.md"
    dropped.write_text(text)
    taken_in(memory)
    entry = next(iter(memory.as_agent("eng-b").read(namespace="api/*")))
    assert entry.body == "use [secret: github token], and then more"
    assert plain_in(root, [key]) == set()
    assert memory.verify().ok
    dropped.write_text("---\nfrom: nobody\npriority: none\n---\n" + key)
    dropped.rename(root / "entries/api/other.md")
    taken_in(memory)
    assert os.listdir(root / "quarantine")
    assert plain_in(root, [key]) == set()


def test_a_writer_that_died_before_it_replaced_the_file(memory, tmp_path):
    """What the commit left to be done is done by whoever opens the workspace next."""
    root, key = Path(memory.store.root), "ghp_" + "aB3" * 12
    (root / "entries/api").mkdir()
    dropped = root / "entries/api/dropped.md"
    text = f"---\n{HEAD}---\nuse {key}"
    dropped.write_text(text)
    taken_in(memory)
    memory.close()
    dropped.write_text(text)  # as it was before the file was replaced
    (root / ".index/placed").unlink()
    with synapse.open(str(root)) as again:
        again.store.refresh(whole=True)
        assert again.verify().ok
    assert plain_in(root, [key]) == set()


def test_nothing_of_a_run_holds_a_secret(memory):
    keys = [secret for _, text, secret in made(200) if "\n" not in secret and text]
    shown = iter([text for _, text, secret in made(200) if "\n" not in secret])

    def agent(seen):
        text = next(shown, None)
        if text is None:
            return "Done with it."
        return Move(text, [("look", {"q": text, "password": "hunter2-xyz"})])

    def look(q: str, password: str) -> str:
        return f"it says: {q}"

    with Supervisor(memory, engine=Scripted(agent), tools=[look]) as supervisor:
        result = supervisor.run(Task("\n".join(text for _, text, _ in made(40)), "eng-a"))
    steps = Path(memory.store.root, "runs", result.run, "steps.jsonl").read_text()
    assert "[secret: " in steps
    assert all(json.loads(line) for line in steps.splitlines())
    assert plain_in(memory.store.root, [*keys, "hunter2-xyz"]) == set()


def test_its_author_is_told(memory, capsys):
    key = "AKIA" + "Q7" * 8
    root = str(memory.store.root)
    args = ["--root", root, "write", "--from", "eng-a", "--namespace", "api/x"]
    assert cli.main([*args, f"use {key}"]) == 0
    assert "a secret was masked" in capsys.readouterr().err
    assert cli.main([*args, "use the vault"]) == 0
    assert "masked" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "password = os.environ['DB_PASSWORD']",
        "def login(user: str, password: str) -> Token:",
        "token = secrets.token_hex(16)",
        "set `api_key: ANTHROPIC_API_KEY` in synapse.yaml",
        "a budget of tokens: 4000",
        "The password is hashed with bcrypt before it is stored.",
        "git@github.com:synapse/memory.git, https://docs.python.org/3/library/re.html",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "password=<your password>, PASSWORD=${DB_PASSWORD}, api_key=YOUR_API_KEY_HERE",
        "the key: syn-2026-02-01-001 is the id of an entry",
    ],
)
def test_ordinary_text_stays(text):
    assert secrets.mask(text) == text


def test_json_that_can_be_encoded_is_so_when_it_is_masked():
    text = json.dumps({"call": "\ud800 curl -H ghp_" + "aB3" * 12})
    assert secrets.mask_json(text).encode()
    assert json.loads(secrets.mask_json(text)) == {"call": "\ud800 curl -H [secret: github token]"}


def test_names_that_are_masked_alike_stay_apart():
    one, two = "ghp_" + "aB3" * 12, "ghp_" + "cD4" * 12
    masked = {"[secret: github token]": 1, "[secret: github token] 2": 2}
    assert secrets.mask_deep({one: 1, two: 2}) == masked
    assert json.loads(secrets.mask_json(json.dumps({one: 1, two: 2}))) == masked
    assert secrets.mask_deep(masked) is masked
    assert each_text({"a": 1, "b": [2]}, lambda _: "x") == {"x": 1, "x 2": [2]}


def test_masking_twice_changes_nothing():
    for _, text, secret in made(440, 3):
        masked = secrets.mask(text)
        assert not any(line in masked for line in secret.splitlines())
        assert secrets.mask(masked) == masked


def test_false_positives_on_the_code_of_this_project():
    lines = hits = 0
    for folder in ("synapse", "orchestrator", "docs", "prompts"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md", ".sql", ".j2"):
                for line in path.read_text().splitlines():
                    lines += 1
                    hits += secrets.mask(line) != line
    assert lines > 50_000
    assert hits / lines < 0.001
