"""The server answers over HTTP with what `authority.visible` allows to the agent of the token."""

import asyncio
import json
import re

import httpx2
import pytest

from synapse.acts.act import OPERATOR
from synapse.server.application import Serving, build
from synapse.server.limits import Limits
from synapse.server.routes.acts import ACTS
from synapse.trust.bearer import TokenFile
from tests.gate.world import (
    GHOST,
    GHOST_MESSAGE,
    GHOST_THREAD,
    LIVE,
    MAIL,
    READERS,
    VIEWED,
    samples,
    threads_of,
    world_at,
)

# What a request has where it must have something.
GIVEN = {"cause": "{id}", "effect": "{id}", "ids": ["{id}"], "namespace": "api", "reaction": "+1"}
# Parameters that name items which the caller may not see. `related` may name any; what is of a
# thread is walked by its messages.
NAMES = {"ids", "cites", "supersedes", "derived_from", "cause", "effect"}


def of_one(act):
    """Yield the requests for an act that name one item: in the path, or in a parameter."""
    body = {
        name: GIVEN.get(name, "text") for name, each in act.inputs.items() if act.is_needed(each)
    }
    if act.role == OPERATOR or act.place.startswith(("/threads/", "/agents/")):
        return
    if "{id}" in act.place or NAMES & body.keys():
        yield act.method, act.place, None if act.method == "GET" else body
    if act.method == "POST":
        for name in [name for name in act.inputs if name in NAMES and name not in body]:
            yield act.method, act.place, {**body, name: ["{id}"]}


READS = (
    *(
        act.place
        for act in ACTS
        if act.method == "GET" and not act.needs_body and "{" not in act.place
    ),
    "/entries?limit=3",
    "/entries?since=24h&priority=critical&limit=1000",
    "/entries?namespace=vault/*&namespace=team/*",
    "/entries?namespace=mail",
    "/entries?author=eng-a&tag=tagged",
    "/entries?archived=true",
    "/entries?unread=true",
    "/entries?unread=true&budget=800",
    "/briefing?budget=400&quick=true",
    "/briefing?about=common&budget=20000",
    "/briefing?only=critical&moments=false&commands=false",
    "/briefing?department=backend",
    "/briefing?as_of=2h",
    "/as-of?time=2h",
    "/as-of?time=3h&department=backend",
    "/later?as_of=3h",
    "/search?q=common&limit=1000",
    "/search?q=common&archived=true&mode=words",
    "/search?q=said&kind=message",
    "/blockers",
    "/blockers?project=x",
    "/inbox?agent=eng-b",
    "/threads?status=all",
    "/recall?q=common&top_k=100&max_capsule_bytes=65536",
    "/recall?q=common&scope=global",
    "/recent?since=9d&limit=1000",
    "/timeline/x",
    "/timeline/x?limit=0&before=4000000000000000.x",
    "/recent?before=4000000000000000.x",
    "/log?limit=0",
    "/log?limit=0&before=40",
    "/me",
    "/agents",
    *(f"/agents/{name}/acts" for name in READERS[:-1]),
)
# Walked by tests/synapse/server/stream/test_gate.py.
STREAMS = {"/v1/events"}
# What may be asked of one entry: of a hidden one the answer is that of one which is not there.
OF_ONE = (
    *(row for act in ACTS for row in of_one(act)),
    ("GET", "/entries?id={id}", None),
    ("POST", "/shown", {"ids": ["{id}"], "visible": 1, "cursor": 1}),
)


@pytest.fixture(scope="module")
def told():
    found = world_at(None)
    yield found
    found.mem.close()


async def walk(world, tokens, reader, served=None):
    """What a client with the reader's token is description: what it is given, and what it is told of each
    hidden entry beside what it is told of one that is not there.
    """
    path, texts = tokens
    app = build(Serving(world.mem, TokenFile(path), limits=Limits(rate=0)), ())
    if served is not None:  # the planted leak
        gate = app.state.gate
        object.__setattr__(gate, "agent_memory", lambda caller: world.mem.as_agent(served))
    given, apart = {}, []
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app),
        base_url="http://127.0.0.1/v1",
        headers={"authorization": f"Bearer {texts[reader]}"},
    ) as client:

        async def ask(method, place, body, id):
            sent = json.loads(json.dumps(body).replace("{id}", id))
            answer = await client.request(method, place.replace("{id}", id), json=sent)
            text = answer.text.replace(id, "ID")
            sizes = {
                name: value
                for name, value in answer.headers.items()
                if name not in ("content-length", "etag")
            }
            return answer.status_code, text, sizes

        for place in READS:
            answer = await client.get(place)
            given[place] = answer.text
        for thread in sorted(threads_of(world)):
            for place in (f"/threads/{thread}", f"/threads/{thread}/messages"):
                given[place] = (await client.get(place)).text
        ghost = await client.get(f"/threads/{GHOST_THREAD}")
        assert (ghost.status_code, GHOST_THREAD in ghost.text) == (404, True)
        before = world.mem.store.log.mark()
        nobody = {
            (missing, way[:2], str(way[2])): await ask(*way, missing)
            for missing in (GHOST, GHOST_MESSAGE)
            for way in OF_ONE
        }
        for known in samples(world, reader):
            missing = GHOST_MESSAGE if known.state in MAIL else GHOST
            for way in OF_ONE:
                told = await ask(*way, known.id)
                expected = nobody[missing, way[:2], str(way[2])]
                apart.append(((known, *way), told, expected))
            found = await client.get("/search", params={"q": known.word, "limit": 9})
            given[f"search {known.word}"] = found.text.replace(known.word, "")
        apart.append(("nothing was written", world.mem.store.log.mark(), before))
    return given, apart


def is_walked(path, walked):
    """Return whether one of the places that are asked is of this path."""
    pattern = re.sub(r"{\w+}", "[^/]+", path)
    return any(re.fullmatch(pattern, place) for place in walked)


def test_every_route_that_reads_is_walked(told, tokens):
    app = build(Serving(told.mem, TokenFile(tokens[0])), ())
    threads = ("/threads/{id}", "/threads/{id}/messages")
    walked = {
        f"/v1{place.partition('?')[0]}"
        for place in (*READS, *threads, *(of[1] for of in OF_ONE if of[0] == "GET"))
    }
    reads = {path for path, methods in app.openapi()["paths"].items() if "get" in methods}
    reads = {path for path in reads if path.startswith("/v1/")} - STREAMS
    assert [path for path in sorted(reads) if not is_walked(path, walked)] == []
    assert not is_walked("/v1/new/{id}", walked)


# Where what waits for review is told to those who rule on it.
REVIEWS = ("/staged", "/log", *(f"/agents/{name}/acts" for name in READERS[:-1]))


def leaks(world, reader, given):
    return {
        place: found
        for place, text in given.items()
        if (found := world.leaks(reader, text, reviewing=place.partition("?")[0] in REVIEWS))
    }


@pytest.mark.parametrize("reader", READERS)
def test_every_answer_of_the_server_passes_the_gate(told, tokens, reader):
    given, apart = asyncio.run(walk(told, tokens, reader))
    assert leaks(told, reader, given) == {}
    assert [each for each in apart if each[1] != each[2]] == []
    if reader != "operator":
        _counts(told, reader, given)


def _counts(told, reader, given):
    """The counts of pages are those of what the reader may see."""
    page = json.loads(given["/entries"])
    live = told.live(reader)
    assert {entry["id"] for entry in page["entries"]} == live
    assert page["visible"] == page["matched"] == len(live)
    own = {id for id in live if told.mem.store.entry(id).author == reader}
    assert json.loads(given["/unread"])["unread"] == len(live - own)
    view = json.loads(given["/briefing"])
    assert {each["id"] for each in view["included"]} == told.live(reader, states=LIVE | VIEWED)


# Routes that are not walked above, each with why.
OWN = "tells of what the caller wrote with it"
ELSEWHERE = {
    "GET /v1/events": "tests/synapse/server/stream/test_gate.py walks it",
    "POST /v1/search": "GET /v1/search with the question in a body",
    "POST /v1/claims": "tells who holds a piece of work, as the library does",
    "POST /v1/claims/release": OWN,
    "POST /v1/blockers": OWN,
    "POST /v1/messages": OWN,
    "POST /v1/hooks/{name}": OWN,
    "POST /v1/tell": "the operator's",
    "POST /v1/nights/undo": "the operator's",
    **dict.fromkeys(
        (f"POST /v1/threads/{{id}}/{act}" for act in "close reopen tag rename".split()),
        "tells of a thread as GET /v1/threads/{id}, which is walked",
    ),
}
RUNS = "runs limits debts stats tree wakes waiting answer".split()  # tests/orchestrator/server


def unwalked(app):
    """Return the routes below /v1 that no walk asks, and that ELSEWHERE does not name."""
    asked = [("GET", place) for place in (*READS, "/threads/x", "/threads/x/messages")]
    asked += [(method, place) for method, place, _ in OF_ONE]
    lines = [f"{method} /v1{place.partition('?')[0]}" for method, place in asked]
    return {
        route
        for path, operations in app.openapi()["paths"].items()
        for method in operations
        if path.startswith("/v1/")
        and path.split("/")[2] not in RUNS
        and (route := f"{method.upper()} {path}") not in ELSEWHERE
        and not any(re.fullmatch(re.sub(r"{\w+}", "[^/]+", route), line) for line in lines)
    }


def test_every_route_is_walked(told, tokens):
    app = build(Serving(told.mem, TokenFile(tokens[0])))
    assert unwalked(app) == set()
    routes = app.openapi()["paths"]
    for route in ELSEWHERE:
        method, path = route.split()
        assert method.lower() in routes[path], route


def test_a_route_that_is_not_walked_is_found(told, tokens):
    def extend(app):
        app.get("/v1/peek/{id}")(lambda id: id)

    app = build(Serving(told.mem, TokenFile(tokens[0])), (extend,))
    assert unwalked(app) == {"GET /v1/peek/{id}"}


def test_the_walk_finds_a_server_that_acts_as_another(told, tokens):
    given, apart = asyncio.run(walk(told, tokens, "eng-c", served="cto"))
    assert leaks(told, "eng-c", given)
    assert [each for each in apart if each[1] != each[2]]
