"""The application: what is served, from its routes, who may call, and the forms of its errors.

`build` makes it for an open workspace. Further parts of the program add routes and pages as
extensions, by entry points of the group `synapse.server`: what runs cost is known above this
package.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from secrets import token_urlsafe

from anyio import to_thread
from fastapi import FastAPI

from synapse.core import Memory
from synapse.search.background import embedding
from synapse.server import document, problems
from synapse.server.a2a import routes as a2a
from synapse.server.a2a.allowed import Push
from synapse.server.browsers import Browsers
from synapse.server.callers import Authenticated, Gate
from synapse.server.limited import Limited
from synapse.server.limits import Limits
from synapse.server.measures import Measured, Measures
from synapse.server.origins import Origins
from synapse.server.pages import site
from synapse.server.routes import agents, blockers, briefings, entries, health, history, hooks
from synapse.server.routes.acts import router_of
from synapse.server.stream import routes as stream
from synapse.server.stream.hub import Hub
from synapse.server.versions import Versioned
from synapse.system.extras import added
from synapse.system.listening import LOOPBACK
from synapse.trust.bearer import TokenFile
from synapse.webhooks.sender import keep_sending

GROUP = "synapse.server"
THREADS = 16  # that requests are worked on in; each has a cache of the index of its own
NOUNS = (
    entries.router,
    router_of("rulings", 404, 409),
    briefings.router,
    router_of("search", 502),
    router_of("claims", 404, 409),
    blockers.router,
    router_of("mail", 404, 409),
    router_of("knowledge", 404, 409),
    agents.router,
    history.router,
    router_of("operator", 404, 409),
    stream.router,
)
Extension = Callable[[FastAPI], None]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Serving:
    """What is served, and to whom. `names` are the hosts under which requests may come, `proxies`
    the addresses whose word on who calls is believed, `push` where notifications of A2A may go;
    whoever has the `secret` is given links to log in.
    """

    memory: Memory
    tokens: TokenFile
    trust_local: bool = False
    names: tuple[str, ...] = (*LOOPBACK[:2], "[::1]")
    proxies: tuple[str, ...] = ()
    browsers: Browsers = field(default_factory=Browsers)
    limits: Limits = field(default_factory=Limits)
    push: Push = field(default_factory=Push)
    secret: str = field(default_factory=partial(token_urlsafe, 32), repr=False)


def build(serving: Serving, extensions: Iterable[Extension] | None = None) -> FastAPI:
    """Return the application. Routes find the workspace and who calls in `app.state.gate`."""
    app = FastAPI(
        title="Synapse",
        version=version("synapse-orchestrator"),
        description="The shared memory of a team of agents",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=_running,
        responses=problems.responses(400, 403, 413, 422, 429, 503),
    )
    serving.browsers.revocations = serving.tokens.revocations
    app.state.gate = Gate(serving.memory, serving.tokens, serving.browsers, serving.trust_local)
    app.state.serving = serving
    app.state.hub = Hub(serving.memory.store)
    app.state.a2a = None
    problems.install(app)
    document.install(app)
    # around the routes; the last one added is the first that a request passes
    measures = app.state.measures = Measures()
    app.add_middleware(Limited, limits=serving.limits, refused=measures.limited.inc)
    app.add_middleware(Origins, names=serving.names)
    app.add_middleware(Measured, measures=measures)
    app.add_middleware(Versioned)
    for router in NOUNS:
        app.include_router(
            router, prefix="/v1", dependencies=[Authenticated], responses=problems.responses(401)
        )
    app.include_router(hooks.router, prefix="/v1")
    app.include_router(health.router)
    app.include_router(a2a.router)
    site.install(app)
    for extend in installed() if extensions is None else extensions:
        extend(app)
    return app


@asynccontextmanager
async def _running(app: FastAPI) -> AsyncIterator[None]:
    """Run beside the routes: webhooks are sent, entries embedded; at the end streams are closed."""
    stop = asyncio.Event()
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    store = app.state.serving.memory.store
    sending = asyncio.create_task(keep_sending(store, log.warning, stop))
    async with embedding(store, log.warning):
        yield
    stop.set()
    await app.state.hub.close()
    await a2a.close(app)
    await sending


def installed() -> list[Extension]:
    """Return the extensions of the installed packages, in the order of their names."""
    return added(GROUP)
