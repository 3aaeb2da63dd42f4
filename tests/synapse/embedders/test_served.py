"""Ollama and OpenAI's format, spoken over a real connection to a server on this machine."""

import json
import socket
from threading import Event

import pytest

from synapse.embedders import embedder_of
from synapse.embedders.calls import Caller
from synapse.embedders.ollama import Ollama
from synapse.embedders.openai import OpenAI
from synapse.errors import EmbedderError, InvalidEntry, Refused
from synapse.model.settings import Semantic

TEXTS = ["use /v2/users", "deploys are frozen", "Ünïcödé 🎉"]


@pytest.fixture(params=["ollama", "openai"])
def embedder(request, embeddings):
    url = embeddings.url if request.param == "ollama" else f"{embeddings.url}/v1"
    found = embedder_of(Semantic(request.param, url=url))
    yield found
    found.close()


@pytest.fixture
def opened():
    """Opens an embedder that is closed at the end."""
    found = []
    yield lambda embedder: found.append(embedder) or embedder
    for embedder in found:
        embedder.close()


def test_vectors_come_in_the_order_of_the_texts(embedder, embeddings):
    found = embedder.embed(TEXTS)
    assert [len(vector) for vector in found] == [512] * 3
    assert found[1] == embedder.embed(TEXTS[1:2])[0]
    assert len({tuple(vector) for vector in found}) == 3
    assert all(text.endswith(given) for text, given in zip(embeddings.heard, TEXTS, strict=False))


def test_ollama_is_asked_as_it_documents(embeddings, opened):
    embedder = opened(Ollama(embeddings.url))
    embedder.embed(["kept"])
    embedder.embed(["asked"], query=True)
    (path, headers, asked), (_, _, query) = embeddings.calls
    assert (path, asked) == (
        "/api/embed",
        {"model": "nomic-embed-text", "input": ["search_document: kept"]},
    )
    assert query["input"] == ["search_query: asked"]
    assert "authorization" not in headers
    opened(Ollama(embeddings.url, "all-minilm")).embed(["plain"])
    assert embeddings.heard[-1] == "plain"
    assert (embedder.name, Ollama(embeddings.url, "all-minilm").name) == (
        "ollama/nomic-embed-text",
        "ollama/all-minilm",
    )


def test_openai_is_asked_as_it_documents(embeddings, opened, monkeypatch):
    monkeypatch.setenv("TEST_KEY", "s3cret")
    chosen = Semantic("openai", url=f"{embeddings.url}/v1/", model="bge-m3", key="TEST_KEY")
    embedder = opened(embedder_of(chosen))
    embedder.embed(["text"])
    ((path, headers, asked),) = embeddings.calls
    assert (path, headers["authorization"]) == ("/v1/embeddings", "Bearer s3cret")
    assert asked == {"model": "bge-m3", "input": ["text"], "encoding_format": "float"}
    assert embedder.name == "openai/bge-m3"
    monkeypatch.delenv("TEST_KEY")
    with pytest.raises(EmbedderError, match="TEST_KEY, which is not set"):
        embedder_of(chosen)


def answering(status, text):
    raw = text if isinstance(text, bytes) else json.dumps(text).encode()
    return lambda handler, asked: (status, raw)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (answering(400, {"error": "input is too long"}), Refused, "answered 400: .*too long"),
        (answering(422, b"no"), Refused, "answered 422"),
        (
            answering(404, {"error": "model not found, try pulling it"}),
            EmbedderError,
            "404: .*try pulling it",
        ),
        (answering(401, b""), EmbedderError, "answered 401: nothing"),
        (answering(500, b"\xff\xfe oops"), EmbedderError, "answered 500"),
        (answering(200, b"<html>"), EmbedderError, "did not answer in JSON: <html>"),
        (answering(200, b"[]"), EmbedderError, "not answer with an object"),
        (answering(200, b"{}"), EmbedderError, "vector"),
        (
            answering(200, {"embeddings": [[1, 2]], "data": [{"index": 0, "embedding": [1, 2]}]}),
            EmbedderError,
            "vector",
        ),
        (
            answering(
                200,
                {
                    "embeddings": [[1], [2, 3]],
                    "data": [{"index": n, "embedding": [0] * (n + 1)} for n in (0, 1)],
                },
            ),
            EmbedderError,
            "of one dimension",
        ),
        (
            answering(
                200,
                {
                    "embeddings": [["a"], [None]],
                    "data": [{"index": n, "embedding": [True]} for n in (0, 1)],
                },
            ),
            EmbedderError,
            "of one dimension",
        ),
    ],
)
def test_what_is_not_an_answer_is_told(embedder, embeddings, answer, kind, said):
    embeddings.answers.append(answer)
    with pytest.raises(EmbedderError, match=said) as caught:
        embedder.embed(["one", "two"])
    assert type(caught.value) is kind
    assert embeddings.url in str(caught.value)
    assert len(embedder.embed(["one", "two"])) == 2, "the next call is none the worse"


def test_a_redirect_is_not_followed(embedder, embeddings):
    def elsewhere(handler, asked):
        return 307, b""

    embeddings.answers.append(elsewhere)
    with pytest.raises(EmbedderError, match="answered 307"):
        embedder.embed(["a"])
    assert len(embeddings.calls) == 1


def test_a_connection_is_kept_and_made_anew_when_it_was_closed(embedder, embeddings):
    places = []

    def noted(handler, asked):
        places.append(handler.client_address)
        return embeddings.answer(handler.path, asked)

    def closing(handler, asked):
        handler.close_connection = True
        return noted(handler, asked)

    embeddings.answers += [noted, closing, noted]
    for _ in range(3):
        embedder.embed(["a"])
    assert places[0] == places[1] != places[2]


def test_nobody_there_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EmbedderError, match=f"{url} cannot be reached"):
            Ollama(url).embed(["a"])


def test_a_server_that_hangs_is_given_up(embeddings):
    given_up = Event()

    def slow(handler, asked):
        given_up.wait(10)
        handler.close_connection = True
        return 200, b""

    embeddings.answers.append(slow)
    caller = Caller(embeddings.url, {}, patience=0.05)
    with pytest.raises(EmbedderError, match="cannot be reached"):
        caller.post("/api/embed", {"input": []})
    given_up.set()


@pytest.mark.parametrize(
    "url",
    [
        "localhost:11434",
        "ftp://a",
        "http://",
        "http://a:b",
        "http://u:p@host",
        "https://host/?q=1",
        "http://[::1",
    ],
)
def test_an_address_that_cannot_be_called_is_refused(url):
    with pytest.raises(InvalidEntry, match="is not valid: write http"):
        Ollama(url)


def test_nothing_chosen_says_what_to_write():
    with pytest.raises(EmbedderError, match="name one in synapse"):
        embedder_of(Semantic())


def test_defaults_are_the_usual_places():
    assert Ollama().caller.url == "http://127.0.0.1:11434"
    assert OpenAI().caller.url.endswith("/v1")
