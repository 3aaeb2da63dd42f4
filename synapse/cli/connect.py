"""The verb `mcp`: serves the memory to a client of the Model Context Protocol."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import many
from synapse.errors import StoreError
from synapse.model.agents import OPERATOR
from synapse.system import discovery
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.mcp.caller import Identify
    from synapse.mcp.identity import Opened


SESSION = "CLAUDE_CODE_SESSION_ID"  # what a client tells the servers that it starts


def mcp_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--agent",
        metavar="AGENT",
        help="the agent whose memory is served (default: $SYNAPSE_AGENT)",
    )
    add("--run", metavar="RUN", help="act for this run of the agent; RUN or RUN:EPOCH")
    add(
        "--http",
        metavar="[HOST:]PORT",
        help="serve over HTTP (default host: 127.0.0.1); port 0 is any free port",
    )
    add(
        "--token-file",
        metavar="FILE",
        help="with --http: a file with a line AGENT: SHA256 for each token",
    )
    add(
        "--new-token",
        metavar="AGENT",
        help="add a new token to the token file, print it once, and exit",
    )
    add(
        "--hosts",
        action="append",
        metavar="NAME,...",
        help="with --http: other names of this machine",
    )
    add("--tools", action="append", metavar="TOOL,...", help="offer these tools only")
    add("--compat", metavar="cortex", help="offer the cortex_* tools instead")


def mcp(call: Call) -> None:
    _check(call)
    if call.args.new_token is not None:
        _print_token(call)
    else:
        _serve(call)


def _serve(call: Call) -> None:
    from synapse.mcp import installation, is_installed

    if not is_installed():
        raise StoreError(f"the MCP server needs the package mcp: {installation()}")
    from synapse.mcp.identity import Opened
    from synapse.mcp.offer import offer, operators_tools
    from synapse.trust.bearer import TokenFile

    args, opened = call.args, Opened(lambda: call.current_memory)
    tokens = None if args.token_file is None else TokenFile(os.path.expanduser(args.token_file))
    identify = _identify(call, opened)
    is_operator = not args.token_file and call.who(args.agent) == OPERATOR
    more = operators_tools(opened.memory) if is_operator else ()
    offered = offer(many(args.tools), args.compat, more=more)
    started = os.environ.get(SESSION, "")
    if args.http is None:
        # else it would wait for its input to end
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if call.interactive:
            call.note("an MCP client starts this, and talks to it here; Ctrl-C ends it")
        from synapse.mcp.opening import Opening

        Opening(identify, offered, started=started).serve()
        return
    from synapse.mcp.server import build
    from synapse.mcp.transports import serve_http

    if tokens is not None:
        tokens.load()  # a file that cannot be used is said now, not with the first request
    host, port = _address(args.http)
    serve_http(
        build(identify, offered, started=started),
        host,
        port,
        tokens,
        many(args.hosts) or (),
        lambda address: call.note(f"serving {address}"),
    )


def _check(call: Call) -> None:
    """Refuse what does not go together, before anything is imported."""
    args = call.args
    for name in ("token_file", "hosts"):
        if getattr(args, name) and args.http is None and args.new_token is None:
            raise Usage(
                f"--{name.replace('_', '-')} is for --http; over its standard streams"
                f" a server has one client"
            )
    if args.new_token is not None and not args.token_file:
        raise Usage("--new-token needs --token-file, where the token's hash is kept")
    if args.token_file and args.run:
        raise Usage("--run and --token-file cannot go together")
    if args.http is not None:
        from synapse.system.addresses import is_loopback

        host, _ = _address(args.http)
        if not is_loopback(host) and not args.token_file:
            raise Usage(
                f"{host} can be reached by others: name the tokens that are let in"
                f" with --token-file"
            )


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise Usage(f"--http {text!r}: write PORT or HOST:PORT, such as 8765")
    return host.strip("[]") or "127.0.0.1", int(port)


def _identify(call: Call, opened: Opened) -> Identify:
    from synapse.mcp.identity import as_agent, as_token

    if call.args.token_file:
        return as_token(opened)
    who = call.who(call.args.agent)
    if who is None:
        also = ", or the tokens of several with --token-file" if call.args.http is not None else ""
        raise Usage(f"missing --agent AGENT (or set SYNAPSE_AGENT{also})")
    if discovery.is_workspace(call.root):
        with suppress(StoreError):  # it may be there again at the first request
            call.memory.as_agent(who)  # one that there is none of is said now
    return as_agent(opened, who, call.args.run)


def _print_token(call: Call) -> None:
    from synapse.trust.bearer import new_token
    from synapse.trust.persons import operators_alone

    operators_alone("make tokens")
    agent = call.args.new_token
    call.memory.as_agent(agent)
    token = new_token(os.path.expanduser(call.args.token_file), agent)
    call.show({"agent": agent, "token": token}, token)
    call.note(f"it is not kept: give it to {agent}'s client as `Authorization: Bearer ...`")
