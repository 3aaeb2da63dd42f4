"""The verbs `serve`, `dashboard` and `token`: the workspace over HTTP, and who is let in."""

from __future__ import annotations

import os
import time

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import many
from synapse.errors import StoreError
from synapse.log.accepted import FOREIGN_WORKSPACE
from synapse.model.agents import OPERATOR
from synapse.system import extras
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.core import Memory
    from synapse.server.application import Serving
    from synapse.trust.bearer import Token

PORT = 8642
LOOK_EVERY = 0.5  # seconds, for a workspace that is to be accepted


def serve_options(parser: Options) -> None:
    """Add where the workspace is served and to whom, as for `orchestrator up --serve`."""
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="the address (default: 127.0.0.1)")
    add("--port", default=str(PORT), metavar="N", help=f"default: {PORT}; 0 is any free")
    add(
        "--token-file",
        metavar="FILE",
        help="the tokens that are let in (default: those of `synapse token`)",
    )
    add(
        "--hosts",
        action="append",
        metavar="NAME,...",
        help="other names under which this machine is asked",
    )
    add(
        "--proxy",
        action="append",
        metavar="ADDRESS,...",
        help="proxies that say who calls, in X-Forwarded-For; of others it is not believed",
    )
    add(
        "--push-hosts",
        action="append",
        metavar="HOST,...",
        help="hosts that A2A notifications may go to beside public ones",
    )
    add(
        "--trust-local",
        action="store_true",
        help="who has no token is the operator, or the agent that it names; for this machine alone",
    )


def serve(call: Call) -> None:
    host, port = checked_address(call)
    demand_packages()
    from synapse.server import run
    from synapse.server.announcement import announced
    from synapse.server.application import build

    serving = serving_of(call, _accepted(call), host)
    with announced(call.root, serving.secret) as leave:

        def ready(address: str) -> None:
            leave(address)
            for line in run.introduction(serving, call.root, address):
                call.note(line)

        run.serve(build(serving), host, port, ready)


def _accepted(call: Call) -> Memory:
    """Return the memory, once a person accepted a workspace that came from elsewhere."""
    if call.memory.store.foreign:
        call.note(f"{FOREIGN_WORKSPACE}; it is served from then on")
        while not call.memory.store.outdated:
            time.sleep(LOOK_EVERY)
    return call.current_memory


def dashboard_options(parser: Options) -> None:
    add = parser.add_argument
    add("--agent", metavar="AGENT", help="log in as this agent (default: as the operator)")
    add("--open", action="store_true", help="open it in the browser, too")


def dashboard(call: Call) -> None:
    from synapse.server.announcement import link
    from synapse.trust.persons import persons_alone

    persons_alone("log in")
    address = link(call.root, call.args.agent or OPERATOR)
    call.note("good once, for ten minutes")
    call.show({"link": address}, address)
    if call.args.open:
        from synapse.system.browser import open_page

        open_page(address)


def serving_of(call: Call, memory: Memory, host: str) -> Serving:
    """Return what is served, and to whom, as the options say."""
    from synapse.server.a2a.allowed import Push
    from synapse.server.application import Serving
    from synapse.system import listening
    from synapse.trust.bearer import TokenFile

    return Serving(
        memory,
        TokenFile(_file(call)),
        call.args.trust_local,
        tuple(listening.hosts(host, many(call.args.hosts) or ())),
        tuple(many(call.args.proxy) or ()),
        push=Push(tuple(many(call.args.push_hosts) or ())),
    )


def demand_packages() -> None:
    """Raise StoreError where the packages of the server are not installed."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise StoreError(extras.missing(error, "the server", extras.SERVER)) from error


def checked_address(call: Call) -> tuple[str, int]:
    """Return the host and the port of the options; Usage where they cannot be served so."""
    from synapse.system.addresses import is_loopback

    host, port = call.args.host.strip("[]"), call.args.port
    if not (port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise Usage(f"--port {port!r}: write a number up to 65535")
    if call.args.trust_local and not is_loopback(host):
        raise Usage(
            f"{host} can be reached by others: --trust-local is for this machine alone;"
            " give out tokens with `synapse token new AGENT`"
        )
    return host, int(port)


def token_options(parser: Options) -> None:
    add = parser.add_argument
    add("do", choices=("new", "list", "revoke"), help="what is done")
    add("name", nargs="?", metavar="AGENT", help="an agent, or the id of a token to revoke")
    add("--expires", metavar="TIME", help="how long the token is good: 12h, 30d")
    add("--read-only", action="store_true", help="the token writes nothing")
    add("--token-file", metavar="FILE", help="another file than the one of this workspace")


def token(call: Call) -> None:
    do, name = call.args.do, call.args.name
    if (name is None) != (do == "list"):
        raise Usage("write: token new AGENT, token list, or token revoke AGENT|ID")
    {"new": _new, "list": _list, "revoke": _revoke}[do](call)


def _new(call: Call) -> None:
    from synapse.model import clock
    from synapse.model.entry import parse_ttl
    from synapse.trust import bearer
    from synapse.trust.persons import persons_alone

    persons_alone("make tokens")
    agent, expires = call.args.name, None
    call.memory.as_agent(agent)
    if call.args.expires:
        span = parse_ttl(call.args.expires)
        expires = None if span is None else clock.now() + span
    path = _file(call)
    os.makedirs(os.path.dirname(os.path.abspath(path)), 0o700, exist_ok=True)
    text = bearer.new_token(path, agent, read_only=call.args.read_only, expires=expires)
    call.note("shown once; only its hash is kept")
    call.show({"agent": agent, "token": text}, text)


def _list(call: Call) -> None:
    from synapse.errors import NotFound
    from synapse.trust.bearer import TokenFile

    try:
        tokens = list(TokenFile(_file(call)).load().values())
    except NotFound:
        tokens = []
    call.show(
        lambda: {"tokens": [_token_json(token) for token in tokens]},
        lambda: (
            "\n".join(_token_line(token) for token in tokens)
            or "no tokens; `synapse token new AGENT` makes one"
        ),
    )


def _revoke(call: Call) -> None:
    from synapse.trust import bearer

    ended = bearer.revoke(_file(call), call.args.name)
    call.show(
        lambda: {"revoked": [_token_json(token) for token in ended]},
        lambda: "\n".join(f"revoked {_token_line(token)}" for token in ended),
    )


def _token_json(token: Token) -> dict[str, object]:
    return {
        "id": token.id,
        "agent": token.agent,
        "read_only": token.read_only,
        "expires": _end(token),
    }


def _token_line(token: Token) -> str:
    from synapse.model import clock

    rights = "read-only" if token.read_only else "reads and writes"
    end = "no end"
    if token.expires is not None:
        over = clock.now() >= token.expires
        end = f"{'expired' if over else 'until'} {_end(token)}"
    return f"{token.id}  {token.agent}  {rights}  {end}"


def _end(token: Token) -> str | None:
    from synapse.model.clock import seconds

    return None if token.expires is None else seconds(token.expires)


def _file(call: Call) -> str:
    from synapse.trust.bearer import place

    path = call.args.token_file
    return os.path.expanduser(path) if path else place(call.root)
