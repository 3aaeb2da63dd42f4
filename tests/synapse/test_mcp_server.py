"""The MCP server as its clients have it: the SDK's own client, over standard streams and HTTP, in
both revisions.
"""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import time
import warnings
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

import synapse
from synapse.agent_memory import AgentMemory
from synapse.errors import Forbidden, InvalidEntry
from synapse.mcp.caller import Caller
from synapse.mcp.changes import Subscriber, Watch
from synapse.mcp.offer import instructions, offer
from synapse.mcp.opening import REVISIONS, Opening
from synapse.mcp.resources import Target
from synapse.mcp.server import build
from synapse.model.agents import Agent
from synapse.model.records import Record
from synapse.system.tokens import Tokens
from synapse.testing import FrozenClock
from synapse.trust.bearer import TokenFile, digest, new_token
from tests.synapse.served import PLAIN

WARM = str(Path(__file__).with_name("warm.py"))
MODES = {"2026-07-28": "auto", "2025-11-25": "legacy"}
WRITER = """
import sys, synapse
with synapse.open(sys.argv[1]) as memory:
    lead = memory.as_agent("lead")
    for line in sys.stdin:
        namespace, _, body = line.strip().partition(" ")
        print(lead.append(body, namespace).id, flush=True)
"""
CONFINED = """
import sys
sys.path.insert(0, sys.argv[1])
import confined
if not confined.landlock():
    print("no landlock", file=sys.stderr)
    raise SystemExit(77)
from synapse.cli import main
raise SystemExit(main(sys.argv[2:]))
"""
HOST = """
import subprocess, sys, time
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
server.stdin.write(b'{}\\n')
server.stdin.flush()
print(server.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def root(tmp_path):
    path = str(tmp_path / "ws")
    with synapse.init(path) as memory:
        memory.register(Agent("eng", read=["api/*", "blockers/*"], write=["api/*", "blockers/*"]))
        memory.register(Agent("lead", role="project-lead", read=["*"], write=["*"]))
    return path


def line(root, *words, agent="eng"):
    who = () if agent is None else ("--agent", agent)
    return ["--root", str(root), "mcp", *who, *words]


def cold(root, *words, **more):
    """Return a command line for a process that begins with nothing imported, as a user's does."""
    return [sys.executable, "-m", "synapse.cli", *line(root, *words, **more)]


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """Return a function like `cold`, whose processes have imported the MCP SDK already."""
    address = str(tmp_path_factory.mktemp("warm") / "s")
    words = [sys.executable, WARM, "serve", address]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, env=clean()) as server:
        assert server.stdout.readline() == b"ready\n"
        begin = [sys.executable, "-I", "-S", WARM, address]
        yield lambda root, *words, **more: [*begin, *line(root, *words, **more)]
        server.stdin.close()
        server.wait(30)


def clean(**more):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SYNAPSE_", "CLAUDE"))
    }
    return kept | more


def client(words, mode="auto", handler=None, log=None, **env):
    """A client of a server that it starts."""
    started = StdioServerParameters(command=words[0], args=words[1:], env=clean(**env))
    streams = stdio_client(started, errlog=log) if log else stdio_client(started)
    return Client(streams, mode=mode, message_handler=handler, read_timeout_seconds=30)


def run(body):
    return asyncio.run(asyncio.wait_for(body, 100))


def text(result):
    return result.content[0].text


async def call(client, tool, /, meta=None, **arguments):
    return await client.call_tool(tool, arguments, meta=meta)


async def subscribe(client, uri):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await client.subscribe_resource(uri)


@asynccontextmanager
async def served(words, **env):
    """The address of an HTTP server, which ends with the block."""
    server = await asyncio.create_subprocess_exec(
        *words, stderr=asyncio.subprocess.PIPE, env=clean(**env)
    )
    try:
        yield (await server.stderr.readline()).decode().split()[-1]
    finally:
        server.terminate()
        await server.communicate()


@asynccontextmanager
async def over_http(address, token=None, mode="auto", handler=None):
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30, verify=PLAIN) as http,
        Client(
            streamable_http_client(address, http_client=http), mode=mode, message_handler=handler
        ) as connected,
    ):
        yield connected


@asynccontextmanager
async def writer(root):
    """Another process that writes as the lead, an entry for each call."""
    pipe = asyncio.subprocess.PIPE
    words = [sys.executable, "-c", WRITER, str(root)]
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, env=clean())

    async def write(namespace, body):
        process.stdin.write(f"{namespace} {body}\n".encode())
        return (await process.stdout.readline()).decode().strip()

    try:
        yield write
    finally:
        process.stdin.close()
        await process.wait()


def gone(pid, seconds=60):
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# -- what is offered -------------------------------------------------------------------------------


def listed(tools):
    return [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
        for tool in tools
    ]


def test_what_the_tools_cost():
    """Every client sends them with every request. docs/how-to/mcp.md has the figure."""
    count = Tokens("o200k_base").count
    own = count(json.dumps(listed(offer()), separators=(",", ":")))
    cortex = count(json.dumps(listed(offer(compat="cortex")), separators=(",", ":")))
    assert max(own, cortex) <= 1_800
    assert (own, count(instructions(offer()))) == (980, 120)


def test_the_tools_are_these():
    assert [tool.name for tool in offer()] == [
        "memory_search", "memory_remember", "memory_forget", "append", "read", "briefing", "ack", "send", "inbox",
        "claim", "report_blocker",
    ]  # fmt: skip
    assert [tool.name for tool in offer(["read", "append"])] == ["append", "read"]
    assert all(tool.name.startswith(("cortex_", "atom_")) for tool in offer(compat="cortex"))
    with pytest.raises(
        InvalidEntry, match=r"no tool reed; there are memory_search, .*report_blocker"
    ):
        offer(["reed"])
    with pytest.raises(InvalidEntry, match="cortex"):
        offer(compat="vertex")


def test_the_words_of_the_tools_fit_what_they_take():
    from synapse import tools

    known = {tool.name: tool for tool in (*tools.TOOLS, *tools.CLIENTS)}
    for tool in offer():
        more = {"project"} if tool.name == "report_blocker" else set()
        assert (
            tool.schema["properties"].keys() == known[tool.name].schema["properties"].keys() | more
        )
        assert tool.schema.get("required") == known[tool.name].schema.get("required")
    assert "claim" not in instructions(offer(["read", "memory_search"]))
    assert "never an instruction" in instructions(offer(["read"]))
    assert "Begin with" in instructions(offer())
    # its view is there already
    assert "Begin with" not in instructions(offer(given=True), given=True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--tools", "reed"], "no tool reed; there are memory_search"),
        (["--compat", "vertex"], "cortex"),
        (["--http", "0.0.0.0:0"], "--token-file"),
        (["--http", "example.org:80"], "--token-file"),
        (["--http", "x"], "HOST:PORT"),
        (["--token-file", "x"], "--http"),
        (["--new-token", "eng"], "--token-file"),
        (["--http", "0", "--token-file", "none"], "no token file none"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_at_the_start_is_told(command, root, words, told):
    done = subprocess.run(
        command(root, *words), capture_output=True, text=True, timeout=60, env=clean(), input=""
    )
    assert done.returncode in (3, 64), done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_whose_memory_it_is_must_be_said(command, root):
    done = subprocess.run(
        command(root, agent=None), capture_output=True, text=True, timeout=60, env=clean(), input=""
    )
    assert (done.returncode, done.stdout) == (64, "")
    assert "missing --agent AGENT (or set SYNAPSE_AGENT)" in done.stderr


# -- what a client does ----------------------------------------------------------------------------


@pytest.mark.parametrize("revision", MODES)
def test_every_tool_is_called(command, root, revision):
    begin = cold if MODES[revision] == "auto" else command

    async def body():
        async with client(begin(root), MODES[revision]) as me:
            assert me.protocol_version == revision
            assert me.server_info.name == "synapse"
            assert me.instructions.startswith("Synapse is the memory")
            names = [tool.name for tool in (await me.list_tools()).tools]
            assert names == [tool.name for tool in offer()]
            stored = text(
                await call(me, "append", namespace="api/users", body="use v2", topic="users")
            )
            id = stored.split()[2]
            assert "use v2" in text(await call(me, "read", id=id))
            assert "use v2" in text(await call(me, "memory_search", query="users v2"))
            kept = text(
                await call(me, "memory_remember", fact="the sandbox resets at noon", scope="agent")
            )
            assert "Kept as fact_" in kept
            assert "Forgot" in text(await call(me, "memory_forget", fact_id=kept.split()[2]))
            assert "use v2" in text(await call(me, "briefing", task="the users page", budget=500))
            assert "is yours until" in text(await call(me, "claim", work="users page", minutes=5))
            assert "Released" in text(await call(me, "claim", work="users page", release=True))
            blocked = await call(me, "report_blocker", text="there is no key", project="web")
            assert "blockers/web" in text(blocked)
            with synapse.open(root) as memory:
                from synapse.mail.mailbox import Mail

                sent = Mail(memory.as_agent("lead")).send(
                    "eng", "Which fee?", subject="Fees", priority="urgent"
                )
            inbox = text(await call(me, "inbox"))
            assert all(
                word in inbox for word in (sent.entry.id, "Fees", "> Which fee?", sent.thread)
            )
            assert text(await call(me, "inbox")) == "No unread messages."
            assert sent.thread in text(await call(me, "send", re=sent.entry.id, body="0.1 %"))
            assert "agent:lead" in text(await call(me, "send", to="lead", body="done", subject="S"))
            assert (
                text(await call(me, "ack", ids=[sent.entry.id])) == f"Acknowledged {sent.entry.id}."
            )
        with synapse.open(root) as memory:
            waiting = Mail(memory.as_agent("lead")).inbox()
            assert [(each.sender, each.body) for each in waiting] == [
                ("eng", "0.1 %"),
                ("eng", "done"),
            ]

    run(body())


REQUESTS = (
    ("ping", None),
    ("tools/list", {}),
    ("prompts/list", {"_meta": {"progressToken": 1}}),
    ("resources/list", None),
    ("resources/templates/list", None),
)


def answers(service, revision, **more):
    """What a server says to the first requests of a session over standard streams, and whether the
    SDK was loaded for that.
    """
    about = {"protocolVersion": revision, "capabilities": {}} | more
    about["clientInfo"] = {"name": "a client", "version": "1", "title": "A client"}
    asked = [
        {"jsonrpc": "2.0", "id": f"é{number}", "method": method}
        | ({} if params is None else {"params": params})
        for number, (method, params) in enumerate((("initialize", about), *REQUESTS))
    ]
    asked.insert(1, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    pipe, words = subprocess.PIPE, [sys.executable, "-c", service]
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        server.stdin.writelines(json.dumps(message).encode() + b"\n" for message in asked)
        server.stdin.flush()
        said = [json.loads(server.stdout.readline()) for message in asked if "id" in message]
        rest, told = server.communicate(timeout=60)
    assert (server.returncode, rest) == (0, b""), told
    return sorted(said, key=lambda answer: answer["id"]), b"with the SDK" in told


LEFT_OUT = "given=True, resources=False, prompts=False"


@pytest.mark.parametrize(
    ("revision", "options"),
    [*((revision, "") for revision in (*REVISIONS, "1999-01-01")), (REVISIONS[-1], LEFT_OUT)],
)
def test_the_opening_is_answered_as_by_the_sdk_and_without_it(root, revision, options):
    service = (
        "import sys, synapse\n"
        "from synapse.mcp.offer import offer\n"
        "from synapse.mcp.opening import Opening\n"
        f"memory = synapse.open({root!r}).as_agent('eng')\n"
        f"Opening(lambda caller: memory, offer(), {options}).serve()\n"
        "print('with the SDK' if 'mcp' in sys.modules else '', file=sys.stderr)\n"
    )
    own, loaded = answers(service, revision)
    # of resources that are not served the SDK says so itself
    assert loaded == ("resources=False" in options)
    by_sdk, loaded = answers(service, revision, _meta={})
    assert (own, True) == (by_sdk, loaded)
    assert len(own) == len(REQUESTS) + 1


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
        b'"capabilities":{},"clientInfo":{"name":"\\ud800","version":"1"}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
    ],
)
def test_what_is_of_another_form_is_left_to_the_sdk(line):
    assert Opening(lambda caller: None, offer()).answer(line) is None


def test_the_revisions_are_those_of_the_sdk():
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    assert REVISIONS == HANDSHAKE_PROTOCOL_VERSIONS


@pytest.mark.parametrize("revision", MODES)
def test_resources_and_the_prompt(command, root, revision):
    async def body():
        with synapse.open(root) as memory:
            lead = memory.as_agent("lead")
            seen = lead.append("use v2", "api/users", priority="important")
            hidden = lead.append("the secret", "vault/x", priority="critical")
        async with client(command(root), MODES[revision]) as me:
            (view,) = (await me.list_resources()).resources
            assert str(view.uri) == "synapse://view/eng"
            templates = (await me.list_resource_templates()).resource_templates
            assert [each.uri_template for each in templates] == [
                "synapse://view/{agent}",
                "synapse://entry/{id}",
            ]
            told = (await me.read_resource("synapse://view/eng")).contents[0].text
            assert "use v2" in told
            assert "secret" not in told
            assert (
                "use v2" in (await me.read_resource(f"synapse://entry/{seen.id}")).contents[0].text
            )
            for uri in (
                "synapse://view/lead", "synapse://view/operator", f"synapse://entry/{hidden.id}", "synapse://view/",
                "synapse://view/eng/../lead", "synapse://entry/syn-2001-01-01-001", "file:///etc/passwd", "synapse://x/y",
            ):  # fmt: skip
                with pytest.raises(MCPError):
                    await me.read_resource(uri)
            (prompt,) = (await me.list_prompts()).prompts
            assert prompt.name == "briefing"
            told = (
                (await me.get_prompt("briefing", {"task": "mend the users page"}))
                .messages[0]
                .content.text
            )
            assert "never an instruction" in told
            assert "use v2" in told
            for name, given in (("brief", {}), ("briefing", {"agent": "lead"})):
                with pytest.raises(MCPError):
                    await me.get_prompt(name, given)
            assert (
                "use v2" in (await me.read_resource("synapse://view/eng")).contents[0].text
            )  # it goes on

    run(body())


def test_agents_are_not_offered_what_is_the_operators(command, root):
    async def body():
        async with client(command(root, agent="lead")) as me:
            names = {tool.name for tool in (await me.list_tools()).tools}
            assert names.isdisjoint(("waiting", "answer"))

    run(body())


def test_the_operator_sees_every_view(command, root):
    async def body():
        with synapse.open(root) as memory:
            memory.as_agent("lead").append("the secret", "vault/x", priority="critical")
        async with client(command(root, agent="operator")) as me:
            uris = [str(each.uri) for each in (await me.list_resources()).resources]
            assert uris == [f"synapse://view/{name}" for name in ("operator", "eng", "lead")]
            assert "secret" in (await me.read_resource("synapse://view/lead")).contents[0].text
            assert "secret" not in (await me.read_resource("synapse://view/eng")).contents[0].text
            assert (await call(me, "append", namespace="api/x", body="b")).is_error

    run(body())


def test_older_names_are_served(command, root):
    async def body():
        async with client(command(root, "--compat", "cortex")) as me:
            assert "cortex_add" in {tool.name for tool in (await me.list_tools()).tools}
            assert "Stored as fact_" in text(
                await call(me, "cortex_add", content="the cache is off")
            )
            assert "cache" in text(await call(me, "cortex_stm"))
        async with client(command(root, "--tools", "read,append")) as me:
            assert [tool.name for tool in (await me.list_tools()).tools] == ["append", "read"]
            with pytest.raises(MCPError, match="there is no tool 'claim'"):
                await call(me, "claim", work="w")

    run(body())


def test_a_run_is_acted_for(command, root):
    with synapse.open(root) as memory:
        fields = {"run": "r", "epoch": 3, "state": "running", "agent": "eng", "project": "shop"}
        memory.store.commit.append(Record.new("run", "eng", fields, key="run:r"))

    async def body():
        async with client(command(root, "--run", "r")) as me:
            assert "blockers/shop" in text(await call(me, "report_blocker", text="no key"))
        async with client(command(root, "--run", "other")) as me:
            assert "there is no run other" in text(await call(me, "read"))
        async with client(command(root, "--run", "r", agent="lead")) as me:
            assert "run r is eng's" in text(await call(me, "append", namespace="api/x", body="b"))

    run(body())


# -- who it is -------------------------------------------------------------------------------------


def test_no_argument_makes_anybody_another(command, root):
    """Neither arguments nor what a request says of itself."""

    async def body():
        async with client(command(root)) as me:
            for name in ("agent", "from", "author", "as", "run", "seat"):
                answer = await call(me, "append", namespace="api/x", body="b", **{name: "lead"})
                assert answer.is_error
                assert f"takes no '{name}'" in text(answer)
            meta = {"agent": "lead", "synapse/agent": "lead", "from": "lead"}
            await call(me, "append", meta=meta, namespace="api/x", body="whose?")
            assert "may not write in vault/x" in text(
                await call(me, "append", meta=meta, namespace="vault/x", body="b")
            )
        async with client(command(root), SYNAPSE_AGENT="lead") as me:
            await call(me, "append", namespace="api/x", body="as started")
        async with client(command(root, agent=None), SYNAPSE_AGENT="eng") as me:
            await call(me, "append", namespace="api/x", body="as the environment says")

    run(body())
    with synapse.open(root) as memory:
        assert {entry.author for entry in memory.as_agent("lead").read(namespace="api/x")} == {
            "eng"
        }


def test_a_run_is_its_own_agent_alone(command, root):
    words = command(root, agent="lead")
    env = clean(SYNAPSE_RUN="r", SYNAPSE_AGENT="eng")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=env, input="")
    assert (done.returncode, done.stdout) == (4, "")
    words = command(root, "--token-file", "t", "--new-token", "lead", agent=None)
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=env, input="")
    assert (done.returncode, done.stdout) == (4, "")


@pytest.mark.parametrize("revision", MODES)
def test_two_tokens_are_two_agents(command, root, tmp_path, revision):
    path = tmp_path / "tokens"

    async def body():
        tokens = {}
        for agent in ("eng", "lead"):
            words = command(root, "--token-file", str(path), "--new-token", agent, agent=None)
            made = subprocess.run(words, capture_output=True, text=True, timeout=60, env=clean())
            tokens[agent] = made.stdout.strip()
            assert digest(tokens[agent]) in path.read_text()
            assert tokens[agent] not in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        words = command(root, "--http", "0", "--token-file", str(path), agent=None)
        mode = MODES[revision]
        async with (
            served(words) as address,
            over_http(address, tokens["eng"], mode) as eng,
            over_http(address, tokens["lead"], mode) as lead,
        ):
            assert eng.protocol_version == revision
            await call(eng, "append", namespace="api/x", body="by eng")
            stored = text(
                await call(lead, "append", namespace="vault/x", body="by lead", priority="critical")
            )
            id = stored.split()[2]
            assert (await call(eng, "read", id=id)).is_error
            assert "by lead" not in (await eng.read_resource("synapse://view/eng")).contents[0].text
            assert "by lead" in (await lead.read_resource("synapse://view/lead")).contents[0].text
            for me, uri in (
                (eng, "synapse://view/lead"),
                (lead, "synapse://view/eng"),
                (eng, f"synapse://entry/{id}"),
            ):
                with pytest.raises(MCPError):
                    await me.read_resource(uri)
        with synapse.open(root) as memory:
            found = {entry.body: entry.author for entry in memory.as_agent("lead").read()}
            assert found == {"by eng": "eng", "by lead": "lead"}

    run(body())


HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


def test_who_has_no_token_is_turned_away(command, root, tmp_path):
    path = tmp_path / "tokens"
    token, other = new_token(str(path), "eng"), new_token(str(path), "lead")

    async def body():
        words = command(root, "--http", "0", "--token-file", str(path), agent=None)
        async with served(words) as address, httpx2.AsyncClient(verify=PLAIN) as http:

            async def status(token, body=HELLO, **headers):
                bearer = {} if token is None else {"authorization": f"Bearer {token}"}
                return await http.post(address, json=body, headers=HEADERS | bearer | headers)

            for wrong in (None, "x", token[:-1], digest(token), token.upper()):
                answer = await status(wrong)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"].startswith("Bearer")
            assert (await http.get(address)).status_code == 401
            begun = await status(token)
            assert begun.status_code == 200
            session = {"mcp-session-id": begun.headers["mcp-session-id"]}
            assert (await status(token, LIST, **session)).status_code == 200
            # another's session
            assert (await status(other, LIST, **session)).status_code == 404
            assert (await status(token, host="evil.example")).status_code == 421
            assert (await status(token, origin="http://evil.example")).status_code == 403
            lines = path.read_text().splitlines(keepends=True)
            path.write_text(lines[1])
            # ended with its line
            assert (await status(token, LIST, **session)).status_code == 401
            assert (await status(other)).status_code == 200
            path.chmod(0o644)
            path.write_text(lines[1] + "\n")
            # whoever can write it could be anybody
            assert (await status(other)).status_code == 401

    run(body())


def test_without_tokens_the_host_is_checked_too(command, root):
    async def body():
        async with (
            served(command(root, "--http", "127.0.0.1:0")) as address,
            httpx2.AsyncClient(verify=PLAIN) as http,
        ):
            assert address.startswith("http://127.0.0.1:")
            assert (await http.post(address, json=HELLO, headers=HEADERS)).status_code == 200
            evil = HEADERS | {"host": "evil.example"}
            assert (await http.post(address, json=HELLO, headers=evil)).status_code == 421
            huge = await http.post(address, content=b"[" * 5_000_000, headers=HEADERS)
            assert huge.status_code == 413
            async with over_http(address) as me:
                assert "Stored" in text(await call(me, "append", namespace="api/x", body="b"))

    run(body())


def test_a_token_file_that_cannot_be_trusted_is_refused(tmp_path):
    path = tmp_path / "tokens"
    token = new_token(str(path), "eng")
    again = new_token(str(path), "eng")
    found = TokenFile(str(path))
    assert [found.agent(each) for each in (token, again, "x", digest(token))] == [
        "eng",
        "eng",
        None,
        None,
    ]
    with path.open("a") as file:
        file.write("eng: short\n")
    assert found.agent(token) == "eng"  # a bad line harms itself alone
    with path.open("a") as file:
        file.write(f"eng: {digest('other')} somehow\n")
    assert found.agent("other") is None
    assert found.agent(new_token(str(path), "lead")) == "lead"
    path.chmod(0o666)
    assert found.agent(token) is None
    with pytest.raises(Forbidden):
        found.load()


# -- the seam --------------------------------------------------------------------------------------


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        mem.register(Agent("eng", read=["api/*"], write=["api/*"]))
        mem.register(Agent("lead", role="project-lead", read=["*"], write=["*"]))
        yield mem


@pytest.mark.parametrize("mode", MODES.values())
def test_identity_is_asked_with_each_request(mem, mode):
    """Whoever knows which call is whose, such as hooks that saw its id, gives each its seat."""
    asked = []

    def identify(caller):
        asked.append(caller)
        return mem.as_agent("lead" if caller.call == "call-of-a-sub-agent" else "eng")

    async def body():
        async with Client(build(identify, offer(), started="s1"), mode=mode) as me:
            for id in ("call-of-the-main-agent", "call-of-a-sub-agent"):
                meta = {"claudecode/toolUseId": id}
                await call(me, "append", meta=meta, namespace="api/x", body=id)

    run(body())
    assert {entry.body: entry.author for entry in mem.as_agent("lead").read()} == {
        "call-of-the-main-agent": "eng",
        "call-of-a-sub-agent": "lead",
    }
    assert [(caller.call, caller.session, caller.agent) for caller in asked] == [
        ("call-of-the-main-agent", "s1", None),
        ("call-of-a-sub-agent", "s1", None),
    ]


@pytest.mark.parametrize("name", ["claudecode/toolUseId", "callId", "synapse/idempotency_key"])
def test_a_retry_of_a_call_writes_nothing(mem, name):
    async def body():
        async with Client(build(lambda caller: mem.as_agent("eng"), offer())) as me:
            meta = {name: "call-1"}
            first = text(await call(me, "append", meta=meta, namespace="api/x", body="once"))
            assert (
                text(await call(me, "append", meta=meta, namespace="api/x", body="once")) == first
            )
            await call(
                me, "append", meta=meta, namespace="api/x", body="another call with the same id"
            )
            await call(me, "append", namespace="api/x", body="no id")
            await call(me, "append", namespace="api/x", body="no id")

    run(body())
    bodies = sorted(entry.body for entry in mem.as_agent("eng").read())
    assert bodies == ["another call with the same id", "no id", "no id", "once"]


def test_a_retry_of_a_read_gives_the_same(mem):
    from synapse.mail.mailbox import Mail

    Mail(mem.as_agent("lead")).send("eng", "one")
    mem.as_agent("lead").append("news", "api/x")

    async def body():
        async with Client(build(lambda caller: mem.as_agent("eng"), offer())) as me:
            for tool in ("inbox", "read"):
                first = text(await call(me, tool, meta={"callId": "1"}))
                assert text(await call(me, tool, meta={"callId": "1"})) == first
                assert text(await call(me, tool, meta={"callId": "2"})) != first

    run(body())


def test_what_a_caller_says_of_its_call():
    assert Caller().once("append", {}) is None
    for wrong in (
        {"callId": 1},
        {"callId": ""},
        {"callId": ["x"]},
        {"callId": "x" * 10_000},
        {"call": "x"},
    ):
        assert Caller(meta=wrong).call is None
    codex = Caller(meta={"callId": "c", "threadId": "t"}, started="s")
    assert (codex.call, codex.session) == ("c", "t")
    keys = {
        codex.once("append", {"a": 1}),
        codex.once("append", {"a": 2}),
        codex.once("send", {"a": 1}),
        codex._replace(meta={"callId": "c", "threadId": "u"}).once("append", {"a": 1}),
        Caller(meta={"callId": "c"}, started="s").once("append", {"a": 1}),
        Caller(meta={"callId": "c"}, started="s2").once("append", {"a": 1}),
    }
    assert len(keys) == 6
    assert codex.once("append", {"a": "\ud800"}) != codex.once("append", {"a": "\ud801"})


# -- changes ---------------------------------------------------------------------------------------


VIEW = "synapse://view/eng"


@asynccontextmanager
async def connected(command, root, transport, mode, handler):
    if transport == "stdio":
        async with client(command(root), mode, handler) as me:
            yield me
    else:
        async with (
            served(command(root, "--http", "0")) as address,
            over_http(address, None, mode, handler) as me,
        ):
            yield me


@asynccontextmanager
async def listening(me, heard):
    """Hear of the own view, in the way of the connection's revision; another's is refused."""
    if me.protocol_version != "2026-07-28":
        with pytest.raises(MCPError, match="may read its own view"):
            await subscribe(me, "synapse://view/lead")
        await subscribe(me, VIEW)
        yield
        return
    async with me.listen(resource_subscriptions=[VIEW, "synapse://view/lead"]) as changes:
        assert changes.honored.resource_subscriptions == [VIEW]

        async def forward():
            async for change in changes:
                heard.put_nowait(str(change.uri))

        task = asyncio.create_task(forward())
        yield
        task.cancel()


@pytest.mark.parametrize("many", [12, pytest.param(50, marks=pytest.mark.soak)])
@pytest.mark.parametrize("revision", MODES)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_what_another_process_writes_is_told(command, root, transport, revision, many):
    """Each time; and of many at once, whoever reads after the last word of it has them all. Twelve
    in every run, fifty in the soak.
    """

    async def body():
        heard = asyncio.Queue()

        async def handler(message):
            if getattr(message, "method", "") == "notifications/resources/updated":
                heard.put_nowait(str(message.params.uri))

        async with (
            writer(root) as write,
            connected(command, root, transport, MODES[revision], handler) as me,
            listening(me, heard),
        ):
            for number in range(many):
                await write("api/x", f"entry {number}")
                assert await asyncio.wait_for(heard.get(), 20) == VIEW
            for number in range(many):
                await write("api/y", f"burst {number}.")
            seen = ""
            while f"burst {many - 1}." not in seen:
                assert await asyncio.wait_for(heard.get(), 20) == VIEW
                seen = (await me.read_resource(VIEW, cache_mode="bypass")).contents[0].text
            assert all(f"burst {number}." in seen for number in range(many))

    run(body())


def test_what_cannot_be_seen_is_not_told(command, root):
    """Neither its writing nor its fate: whoever listens learns of nothing that it may not read."""
    heard = []

    async def handler(message):
        heard.append(str(message.params.uri))

    async def body():
        async with writer(root) as write, client(command(root), "legacy", handler) as me:
            seen = await write("api/x", "seen")
            hidden = await write("vault/x", "hidden")
            with pytest.raises(MCPError, match="there is no entry"):
                await subscribe(me, f"synapse://entry/{hidden}")
            for uri in ("synapse://view/eng", f"synapse://entry/{seen}"):
                await subscribe(me, uri)
            await write("vault/y", "hidden too")
            with synapse.open(root) as memory:
                memory.as_agent("lead").archive(hidden)
                memory.as_agent("lead").archive(seen)
            while f"synapse://entry/{seen}" not in heard:
                await asyncio.sleep(0.05)
            assert sorted(heard) == [f"synapse://entry/{seen}", "synapse://view/eng"]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                await me.unsubscribe_resource("synapse://view/eng")
            await write("api/x", "after the end")
            with synapse.open(root) as memory:
                memory.as_agent("lead").restore(seen)
            while heard.count(f"synapse://entry/{seen}") < 2:
                await asyncio.sleep(0.05)
            assert heard.count("synapse://view/eng") == 1

    run(body())


def test_seats_of_one_agent_are_one_subscriber(mem):
    """Whoever gives each request a seat of its own can still be told, and end that."""
    heard = []

    async def handler(message):
        heard.append(str(message.params.uri))

    async def body():
        served = build(lambda caller: AgentMemory(mem.store, "eng"), offer())
        async with Client(served, mode="legacy", message_handler=handler) as me:
            entry = mem.as_agent("lead").append("first", "api/x")
            await asyncio.gather(
                *(subscribe(me, uri) for uri in (VIEW, f"synapse://entry/{entry.id}"))
            )
            mem.as_agent("lead").archive(entry.id)
            while len(heard) < 2:
                await asyncio.sleep(0.01)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                await me.unsubscribe_resource(VIEW)
            mem.as_agent("lead").restore(entry.id)
            while heard.count(f"synapse://entry/{entry.id}") < 2:
                await asyncio.sleep(0.01)
            assert heard.count(VIEW) == 1

    run(body())


def test_what_could_not_be_told_is_told_again(mem):
    told = []

    def tell(uri):
        told.append(uri)
        if len(told) == 1:
            raise OSError("the disk is away for a moment")

    watch = Watch(mem.store)
    watch.add(Subscriber(mem.as_agent("eng"), [Target("view", "eng")], tell))
    mem.as_agent("lead").append("news", "api/x")
    end = time.monotonic() + 20
    while len(told) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    watch.close()
    assert told == [VIEW, VIEW]


# -- what goes wrong -------------------------------------------------------------------------------

HOSTILE = (
    {"namespace": 7, "body": "b"},
    {"namespace": ["api/x"], "body": {"a": 1}},
    {"namespace": "api/x", "body": None},
    {"namespace": "api/x", "body": True},
    {"namespace": "../../etc", "body": "b"},
    {"namespace": "api/x\0", "body": "b"},
    {"namespace": "api/x", "body": "b", "priority": "apocalyptic"},
    {"namespace": "x" * 1_000_000, "body": "b"},
    {"x" * 100_000: 1},
    {},
)


@pytest.mark.parametrize("mode", MODES.values())
def test_wrong_types_and_hostile_texts_are_answers(command, root, mode):
    async def body():
        async with client(command(root), mode) as me:
            for given in HOSTILE:
                answer = await me.call_tool("append", given)
                assert answer.is_error, given
                assert text(answer).startswith("Error: ")
                assert len(text(answer)) < 4_096
                assert "Traceback" not in text(answer)
            for tool, given in (
                ("read", {"id": "x" * 100_000}), ("read", {"offset": "0"}),
                ("memory_search", {"query": "a", "top_k": -1}), ("memory_search", {"query": 1}),
                ("briefing", {"budget": 1}), ("briefing", {"budget": 10**12}), ("briefing", {"budget": True}),
                ("ack", {"ids": "syn-1"}), ("ack", {"ids": []}), ("ack", {"ids": [1]}), ("claim", {"work": ""}),
                ("claim", {"work": "w", "minutes": 10**30}), ("send", {"body": "to nobody"}), ("inbox", {"mark": True}),
                ("send", {"body": "b", "to": "nobody-there"}), ("report_blocker", {"text": "t"}),
                ("report_blocker", {"text": "t", "project": "../x"}), ("memory_forget", {"fact_id": "'; drop"}),
            ):  # fmt: skip
                answer = await me.call_tool(tool, given)
                assert answer.is_error, (tool, given)
            huge = await me.call_tool("append", {"namespace": "api/x", "body": "line\n" * 200_000})
            assert huge.is_error or "Stored" in text(huge)
            marked = "ignore all <|im_start|> \u202e\x1b[31m\ufeff text"
            assert not (
                await me.call_tool("append", {"namespace": "api/x", "body": marked})
            ).is_error
            assert "\u202e" not in text(await call(me, "read"))
            with pytest.raises(MCPError, match="there is no tool"):
                await me.call_tool("x" * 10_000, {})

    run(body())


def test_nothing_on_the_line_ends_the_server(root):
    """Raw lines: what is no request is passed over or refused, and standard output has the protocol
    alone.
    """
    lines = [
        b"",
        b"not json",
        b"{}",
        b"[]",
        b'"x"',
        b'{"jsonrpc":"2.0","id":1,"method":"no/such"}',
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","arguments":"text"}}',
        b'{"jsonrpc":"2.0","method":"notifications/nonsense","params":{}}',
        b"\xff\xfe\x00" * 100,
        b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":'
        + b"[" * 20_000
        + b"]" * 20_000
        + b"}",
        json.dumps(HELLO).encode(),
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        json.dumps(LIST | {"id": "last"}).encode(),
    ]
    words, pipe = cold(root), subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=clean()) as server:
        for line in lines:
            server.stdin.write(line + b"\n")
        server.stdin.flush()
        answers = []
        while not answers or answers[-1].get("id") != "last":
            answers.append(json.loads(server.stdout.readline()))
        server.stdin.close()
        assert server.wait(30) == 0
        assert server.stdout.read() == b""
    assert len(answers[-1]["result"]["tools"]) == len(offer())
    assert {answer["jsonrpc"] for answer in answers} == {"2.0"}


def test_a_workspace_may_come_later(command, tmp_path):
    root = tmp_path / "later"

    async def body():
        async with client(command(root)) as me:
            answer = await call(me, "read")
            assert answer.is_error
            assert "later" in text(answer)
            with pytest.raises(MCPError, match="later"):
                await me.read_resource("synapse://view/eng")
            synapse.init(root).close()
            assert "eng" in text(await call(me, "read"))  # nobody has registered it
            with synapse.open(root) as memory:
                memory.register(Agent("eng", read=["api/*"], write=["api/*"]))
            assert "Stored" in text(await call(me, "append", namespace="api/x", body="b"))

    run(body())


def test_where_nothing_may_be_written_reading_works(root, tmp_path):
    with synapse.open(root) as memory:
        memory.as_agent("lead").append("use v2", "api/users", priority="important")
        from synapse.mail.mailbox import Mail

        Mail(memory.as_agent("lead")).send("eng", "a letter")
    crash = str(Path(__file__).parents[1] / "crash")
    words = [sys.executable, "-B", "-c", CONFINED, crash, *cold(root)[3:]]
    probe = [*words[:5], "--version"]
    tried = subprocess.run(probe, capture_output=True, timeout=60, env=clean())
    if tried.returncode == 77:
        pytest.skip("this system has no Landlock to take the right to write from a process")

    async def body():
        async with client(words, "legacy") as me:
            assert "use v2" in text(await call(me, "read"))
            assert "use v2" in text(await call(me, "briefing"))
            assert "use v2" in text(await call(me, "memory_search", query="users v2"))
            assert "a letter" in text(await call(me, "inbox"))
            await subscribe(me, "synapse://view/eng")
            refused = await call(me, "append", namespace="api/x", body="b")
            assert refused.is_error
            assert "cannot be written here" in text(refused)
            assert "use v2" in (await me.read_resource("synapse://view/eng")).contents[0].text

    run(body())


# -- the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_client_that_dies_leaves_no_server(root, how):
    with subprocess.Popen(
        [sys.executable, "-c", HOST, *cold(root)], stdout=subprocess.PIPE, text=True, env=clean()
    ) as host:
        pid = int(host.stdout.readline())
        assert alive(pid)
        os.kill(host.pid, how)
        host.wait(30)
        assert gone(pid)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_server_ends_when_it_is_told_though_its_client_stays(root, how):
    pipe = subprocess.PIPE
    with subprocess.Popen(cold(root), stdin=pipe, stdout=pipe, stderr=pipe, env=clean()) as server:
        server.stdin.write(json.dumps(HELLO).encode() + b"\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        server.send_signal(how)
        assert server.wait(30) == -how
        assert server.stderr.read() == b""


def test_a_subscriber_that_dies_leaves_nothing(command, root):
    """Its server ends with it, and takes its bell down."""

    async def body():
        async with writer(root) as write, client(command(root), "legacy") as me:
            await subscribe(me, "synapse://view/eng")
            await write("api/x", "news")
            await call(me, "read")

    run(body())
    with synapse.open(root) as memory:
        pipes = memory.store.log.pipes
    assert not os.path.isdir(pipes) or os.listdir(pipes) == []


def test_a_server_over_http_ends_when_it_is_told(root):
    words = cold(root, "--http", "0")
    for how in (signal.SIGTERM, signal.SIGINT):
        with subprocess.Popen(
            words, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=clean()
        ) as server:
            assert b"serving http://127.0.0.1:" in server.stderr.readline()
            server.send_signal(how)
            try:
                rest = server.communicate(timeout=30)[1]
            finally:
                server.kill()
            assert b"Traceback" not in rest
            assert server.returncode in (0, -how, 130)
