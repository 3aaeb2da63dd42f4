import json
import signal
import subprocess
import sys

import pytest


@pytest.fixture
def chosen(tmp_path, run, embeddings):
    """A workspace with two entries that wait to be embedded."""
    run("init", "shared-memory")
    run("register", "--id", "cto", "--role", "cto")
    with (tmp_path / "shared-memory/synapse.yaml").open("a") as file:
        file.write(f"semantic:\n  embedder: ollama\n  url: {embeddings.url}\n")
    run("trust", "--yes")
    for body in ("deploys are frozen", "lunch is at noon"):
        run("write", "--from", "cto", "--namespace", "api/x", body)


def test_embed_tells_what_was_done(chosen, run):
    assert run("embed", "--limit", "1").out == "1 embedded, 1 waiting; ollama/nomic-embed-text\n"
    told = json.loads(run("embed", "--json").out)
    assert told == {"model": "ollama/nomic-embed-text", "embedded": 1, "refused": 0, "waiting": 0}


def test_refused_texts_are_counted(chosen, run, embeddings):
    embeddings.refuses = ("lunch",)
    assert run("embed").out == "1 embedded, 1 refused, 0 waiting; ollama/nomic-embed-text\n"


def test_search_by_meaning(chosen, run):
    run("embed")
    found = run("search", "--json", "--mode", "meaning", "frozen", "deploys")
    assert json.loads(found.out)["entries"][0]["body"] == "deploys are frozen"
    done = run("search", "--mode", "guess", "frozen")
    assert (done.code, "guess" in done.err) == (64, True)


def test_an_embedder_that_fails_is_told_of(chosen, run, embeddings):
    embeddings.answers += [lambda *_: (500, b"oops")] * 3
    done = run("embed")
    assert (done.code, done.out) == (9, "")
    assert "answered 500: oops" in done.err
    found = run("search", "frozen")
    assert (found.code, "deploys are frozen" in found.out) == (0, True)
    assert "searched by words alone" in found.err
    embeddings.answers += [lambda *_: (500, b"oops")]
    assert "by words alone" in json.loads(run("search", "--json", "frozen").out)["note"]


def test_without_an_embedder_it_says_what_to_write(run):
    run("init", "shared-memory")
    with open("shared-memory/synapse.yaml", "a") as file:
        file.write("semantic: {embedder: off}\n")
    done = run("embed")
    assert done.code == 9
    assert "name one in synapse.yaml" in done.err


def test_it_follows_until_it_is_stopped(chosen, run):
    command = [sys.executable, "-m", "synapse.cli", "embed", "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert json.loads(child.stdout.readline())["embedded"] == 2
        run("write", "--from", "cto", "--namespace", "api/x", "one more")
        assert json.loads(child.stdout.readline())["embedded"] == 1
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0
