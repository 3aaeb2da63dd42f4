"""The command lines that the unified-brain document writes out, each run as it stands there."""

import json
import os
import shlex
from contextlib import closing

import pytest

from synapse import Mail, cli
from synapse.cli import brain as shell
from synapse.compat.brain import UnifiedBrain
from synapse.embedders.ollama import MODEL
from synapse.search import semantic
from tests.trusted import trust

# The document's own words; the values for its placeholders; and what is printed.
LINES = (
    ('~/bin/synapse send --to nova --subject "..." --body "..."', {}, "syn_"),
    ("~/bin/synapse poll --agent helios", {}, "1\n"),
    ('~/bin/synapse search "spread gate"', {}, "the spread gate has no predictive power"),
    ("synapse export --format json --thread <id>", {"<id>": "thr_1"}, '"thread_id": "thr_1"'),
    (
        "brain provenance <knowledge-id>",
        {"<knowledge-id>": "the fact's"},
        "the spread gate has no predictive power",
    ),
)
OLD = {
    "id": "m1", "from": "nova", "to": "helios", "subject": "gates", "thread_id": "thr_1",
    "body": "we proved that the spread gate predicts nothing", "timestamp": "2026-02-10T21:00:00Z", "read_by": [],
}  # fmt: skip


@pytest.fixture
def brain(tmp_path, monkeypatch):
    """A brain that took over an old file, as helios has it."""
    (tmp_path / "synapse.json").write_text(json.dumps([OLD]))
    (tmp_path / "cortex").mkdir()
    path = str(tmp_path / "brain.db")
    UnifiedBrain.migrate(str(tmp_path / "synapse.json"), str(tmp_path / "cortex"), path)
    monkeypatch.setenv("SYNAPSE_ROOT", f"{path}.log")
    with UnifiedBrain(path, "helios") as brain:
        yield brain


@pytest.fixture
def run(capsys):
    def run(*words):
        capsys.readouterr()
        program = {"synapse": cli.main, "brain": shell.main}[os.path.basename(words[0])]
        code = program(list(words[1:]))
        return code, capsys.readouterr().out

    return run


@pytest.mark.parametrize(("line", "values", "printed"), LINES, ids=[line for line, *_ in LINES])
def test_a_command_line_of_the_document_runs_as_written(brain, run, line, values, printed):
    fact = brain.remember("the spread gate has no predictive power")
    words = [
        {"<knowledge-id>": fact}.get(word, values.get(word, word)) for word in shlex.split(line)
    ]
    code, out = run(*words)
    assert (code, printed in out) == (0, True), out


def test_the_text_is_given_once(brain, run):
    assert run("synapse", "send", "--to", "nova", "--body", "one", "two")[0] == 64
    assert run("synapse", "export", "--thread", "thr_1")[0] == 64


def test_a_thread_answers_to_the_name_it_had(brain, run):
    (thread,) = brain.list_threads(None)
    for words in (("thread", "thr_1"), ("thread", thread["id"])):
        code, out = run("synapse", *words, "--json")
        assert (code, json.loads(out)["thread"]["id"]) == (0, thread["id"])
    sent = brain.send("nova", "gates", "and the fee?", thread_id="thr_1")
    assert brain.mail.get(sent).thread == thread["id"]
    assert [row["body"] for row in brain.thread_history("thr_1")] == [OLD["body"], "and the fee?"]
    assert run("synapse", "thread", "thr_1", "--tag", "fees", "--from", "helios")[0] == 0
    assert run("synapse", "thread", "thr_2")[0] == 3
    assert run("synapse", "export", "--format", "json", "--thread", "thr_2")[0] == 3


def test_attachments_are_in_the_json(brain, run, tmp_path):
    (tmp_path / "report.txt").write_text("figures")
    sent = Mail(brain.me).send("nova", "see the report", attachments=[str(tmp_path / "report.txt")])
    code, out = run("synapse", "export", "--format", "json", "--thread", sent.thread)
    (row,) = json.loads(out)["messages"]
    assert code == 0
    assert row["attachments"] == [dict(each) for each in sent.entry.more["attachments"]]


def test_vectors_have_the_document_s_model_name(brain, embedding_server):
    embedding_server.reset()
    with open(f"{brain.memory.store.root}/synapse.yaml", "a") as file:
        file.write(f"semantic: {{embedder: ollama, url: '{embedding_server.url}'}}\n")
    trust(brain.memory.store.root)
    brain.memory.store.refresh(whole=True)
    brain.remember("the spread gate has no predictive power")
    semantic.embed(brain.memory.store)
    brain.tables.sync()
    with closing(brain.connect()) as connection:
        found = connection.execute(
            "select source_type from embeddings where model = ?", (MODEL,)
        ).fetchall()
    assert sorted(type for (type,) in found) == ["message", "stm"]
    assert brain.check() == []
