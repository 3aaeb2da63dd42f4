"""The pages for people show what `authority.visible` allows to whoever looks at them."""

import asyncio
import pkgutil
import re
from html import unescape
from importlib import import_module

import httpx2
import pytest

from synapse.server import pages
from synapse.server.application import Serving, build
from synapse.server.limits import Limits
from synapse.trust.bearer import TokenFile
from tests.gate.world import GHOST, GHOST_THREAD, READERS, samples, threads_of, world_at

PAGES = (
    "/",
    "/days",
    "/entries",
    "/entries?archived=1",
    "/entries?q=common",
    "/entries?q=common&archived=1",
    "/entries?author=eng-a&tag=tagged",
    "/entries/count",
    "/agents",
    *(f"/agents/{name}" for name in READERS[:-1]),
    *(f"/agents/{name}/reputation" for name in READERS[:-1]),
    "/departments",
    "/departments/backend",
    "/as-of?at=2h",
    "/as-of/view?at=2h",
    "/nights",
    "/pulse",
    "/review",
    "/threads",
    "/threads?status=any",
    "/timeline",
)
# What may be asked of one entry: of a hidden one the page is that of one which is not there.
OF_ONE = ("/entries/{id}", "/entries/{id}/acts", "/entries/{id}/reach")
# Where what waits for review is shown to those who rule on it, and acts of others on entries.
REVIEWS = ("/review", "/timeline", *(f"/agents/{name}" for name in READERS[:-1]))
# Those with nothing of an entry: the login, and acts that are the operator's to undo.
OLDER = re.compile(r'href="([^"]+)">Older')
NO_ENTRY = {"/login", "/nights/{seq}", "/nights/remarks", "/undo/{what}"}


@pytest.fixture(scope="module")
def world():
    made = world_at(None)
    yield made
    made.mem.close()


async def look(world, tokens, reader, served=None):
    """Return what each page shows the reader, and what the pages of hidden entries show beside
    those of one that is not there.
    """
    path, texts = tokens
    app = build(Serving(world.mem, TokenFile(path), limits=Limits(rate=0)), ())
    if served is not None:  # the planted leak
        object.__setattr__(app.state.gate, "agent_memory", lambda _: world.mem.as_agent(served))
    shown, apart = {}, []
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app),
        base_url="http://127.0.0.1",
        headers={"authorization": f"Bearer {texts[reader]}"},
    ) as client:
        threads = [f"/threads/{id}" for id in (*sorted(threads_of(world)), GHOST_THREAD)]
        for place in (*PAGES, *threads):
            shown[place] = (await client.get(place)).text
        place = "/timeline"
        while older := OLDER.search(shown[place]):
            place = f"/timeline{unescape(older[1])}"
            shown[place] = (await client.get(place)).text
        for known in samples(world, reader):
            for place in OF_ONE:
                answers = [
                    (await client.get(place.replace("{id}", id)), id) for id in (known.id, GHOST)
                ]
                hidden, missing = (
                    (answer.status_code, answer.text.replace(id, "ID")) for answer, id in answers
                )
                apart.append((known, place, hidden == missing))
            found = await client.get("/entries", params={"q": known.word})
            shown[f"search {known.word}"] = found.text.replace(known.word, "")
    return shown, apart


def is_walked(path, walked):
    pattern = re.sub(r"{\w+}", "[^/]+", path)
    return any(re.fullmatch(pattern, place) for place in walked)


def leaks(world, reader, shown):
    return {
        place: hidden
        for place, text in shown.items()
        if (hidden := world.leaks(reader, text, reviewing=place.partition("?")[0] in REVIEWS))
    }


@pytest.mark.parametrize("reader", READERS)
def test_every_page_passes_the_gate(world, tokens, reader):
    shown, apart = asyncio.run(look(world, tokens, reader))
    assert leaks(world, reader, shown) == {}
    assert [one for one in apart if not one[2]] == []


def test_pages_that_show_what_another_may_see_are_found(world, tokens):
    shown, apart = asyncio.run(look(world, tokens, "eng-c", served="cto"))
    assert leaks(world, "eng-c", shown)
    assert [one for one in apart if not one[2]]


def test_every_page_is_walked():
    walked = {place.partition("?")[0] for place in (*PAGES, *OF_ONE, "/threads/{id}")}
    modules = [
        import_module(f"synapse.server.pages.{module.name}")
        for module in pkgutil.iter_modules(pages.__path__)
    ]
    paths = {
        route.path
        for module in modules
        for route in getattr(getattr(module, "router", None), "routes", ())
        if "GET" in route.methods
    }
    assert {path for path in paths - NO_ENTRY if not is_walked(path, walked)} == set()
    assert paths > NO_ENTRY
