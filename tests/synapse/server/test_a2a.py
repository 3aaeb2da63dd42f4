"""The memory as an agent of A2A, asked by the SDK's own client over real HTTP."""

import asyncio
import json
import sys
import threading
import uuid
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from a2a.client import ClientConfig, create_client
from a2a.compat.v0_3.types import AgentCard as OldCard
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotFoundError
from google.protobuf.json_format import MessageToDict, ParseDict

import synapse
from synapse import Agent
from synapse.server.a2a.agent import card_at
from synapse.server.a2a.allowed import Push
from synapse.trust.bearer import TokenFile, revoke
from synapse.webhooks.post import Wire
from synapse.wire.a2a import EXTENSION
from tests.synapse.served import PLAIN

TEAM = (
    Agent("eng", read=["api/*"], write=["api/*"]),
    Agent("qa", read=["api/*"], write=["status/*"]),
)


@pytest.fixture
def site(serve):
    return serve(TEAM)


@asynccontextmanager
async def client_of(site, agent, streaming=True, **options):
    headers = {"authorization": f"Bearer {site.token(agent, **options)}"}
    async with httpx.AsyncClient(headers=headers, verify=PLAIN, timeout=30) as http:
        config = ClientConfig(streaming=streaming, httpx_client=http)
        yield await create_client(site.address, client_config=config)


def asking(text="", id=None, push=None, wait=True, **fields):
    message = Message(
        message_id=id or str(uuid.uuid4()),
        role=Role.ROLE_USER,
        parts=[Part(text=text)] if text else [Part(text=" ")],
    )
    if fields:
        ParseDict({EXTENSION: fields}, message.metadata)
    request = SendMessageRequest(message=message)
    if not wait:
        request.configuration.return_immediately = True
    if push is not None:
        request.configuration.task_push_notification_config.CopyFrom(push)
    return request


async def told(client, request):
    return [event async for event in client.send_message(request)]


async def task_of(client, request):
    """The task as it is once a call has ended, from a client that does not stream."""
    (event,) = await told(client, request)
    return event.task


def text_of(task):
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def states(events):
    return [
        TaskState.Name(event.status_update.status.state)
        for event in events
        if event.WhichOneof("payload") == "status_update"
    ]


def test_the_card_is_the_protos_json_and_needs_no_token(site):
    fields = site.client().get("/.well-known/agent-card.json").json()
    card = AgentCard()
    ParseDict(fields, card, ignore_unknown_fields=True)  # those of 0.3, which stand beside
    assert [interface.url for interface in card.supported_interfaces] == [f"{site.address}/a2a"] * 2
    assert [skill.id for skill in card.skills] == ["append", "memory_search", "briefing"]
    assert card.capabilities.streaming
    assert card.capabilities.push_notifications
    (extension,) = card.capabilities.extensions
    assert extension.uri == EXTENSION
    skills = MessageToDict(extension.params)["skills"]
    assert "watch" in skills["briefing"]["properties"]
    assert card == card_at(f"{site.address}/a2a")
    assert OldCard.model_validate(fields).url == f"{site.address}/a2a"


def test_no_token_no_answer(site):
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
    for client in (site.client(), site.client(token="syn_wrong")):
        answer = client.post("/a2a", json=body, headers={"a2a-version": "1.0"})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"


async def _streamed(site):
    async with client_of(site, "eng") as client:
        stored = await told(
            client, asking("GET /users takes a cursor", skill="append", namespace="api/users")
        )
        found = await told(client, asking("cursor of users"))
    return stored, found


def test_a_text_is_a_search_and_is_streamed(site):
    stored, found = asyncio.run(_streamed(site))
    assert [event.WhichOneof("payload") for event in found] == [
        "task",
        "status_update",
        "artifact_update",
        "status_update",
    ]
    assert states(found) == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    assert "GET /users takes a cursor" in found[2].artifact_update.artifact.parts[0].text
    (entry,) = site.memory.as_agent("operator").read()
    assert (entry.author, entry.namespace) == ("eng", "api/users")
    assert entry.id in stored[2].artifact_update.artifact.parts[0].text


def test_what_cannot_be_done_is_a_task_that_failed(site):
    async def ask():
        async with client_of(site, "eng", streaming=False) as client:
            return [
                await task_of(client, asking("x", skill="delete")),
                await task_of(client, asking("x", skill="append", namespace="decisions")),
                await task_of(client, asking("x", skill="append")),
                await task_of(client, asking("x", skill="memory_search", top_k="many")),
            ]

    tasks = asyncio.run(ask())
    assert {task.status.state for task in tasks} == {TaskState.TASK_STATE_FAILED}
    why = [task.status.message.parts[0].text for task in tasks]
    assert "there is no skill 'delete'" in why[0]
    assert "decisions" in why[1]
    assert "namespace is missing" in why[2]
    assert "top_k must be a whole number" in why[3]
    assert not list(site.memory.as_agent("operator").read())


def test_a_token_that_reads_alone_writes_nothing(site):
    async def ask():
        async with client_of(site, "eng", streaming=False, read_only=True) as client:
            written = await task_of(client, asking("x", skill="append", namespace="api/x"))
            return written, await task_of(client, asking("x", skill="briefing", budget=500))

    written, briefing = asyncio.run(ask())
    assert written.status.state == TaskState.TASK_STATE_FAILED
    assert "may read alone" in written.status.message.parts[0].text
    assert briefing.status.state == TaskState.TASK_STATE_COMPLETED
    assert not list(site.memory.as_agent("operator").read())


def test_a_message_that_comes_twice_is_one_entry_after_a_restart_too(tmp_path, serve_memory):
    root, tokens = tmp_path / "team", TokenFile(str(tmp_path / "tokens"))
    memory = synapse.init(root)
    for agent in TEAM:
        memory.register(agent)
    request = asking("it works", id="m-1", skill="append", namespace="api/x")

    async def send(site):
        async with client_of(site, "eng", streaming=False) as client:
            return [text_of(await task_of(client, request)) for _ in range(3)]

    site = serve_memory(memory, tokens)
    first = asyncio.run(send(site))
    site.stop_server()
    memory.close()
    site = serve_memory(synapse.open(root), tokens)
    second = asyncio.run(send(site))
    assert len({*first, *second}) == 1
    (entry,) = site.memory.as_agent("operator").read()
    assert entry.id in first[0]

    other = asking("it does not", id="m-1", skill="append", namespace="api/x")

    async def send_other(site):
        async with client_of(site, "eng", streaming=False) as client:
            await task_of(client, other)

    asyncio.run(send_other(site))
    assert {entry.body for entry in site.memory.as_agent("operator").read()} == {
        "it works",
        "it does not",
    }


def test_a_task_is_its_agents_alone(site):
    async def ask():
        async with client_of(site, "eng") as eng, client_of(site, "qa") as qa:
            mine = (await told(eng, asking("users")))[0].task.id
            watch = eng.send_message(asking(skill="briefing", watch=True))
            watched = (await anext(watch)).task.id
            refused = 0
            for id in (mine, watched):
                calls = (
                    lambda id: qa.get_task(GetTaskRequest(id=id)),
                    lambda id: qa.cancel_task(CancelTaskRequest(id=id)),
                    lambda id: anext(qa.subscribe(SubscribeToTaskRequest(id=id))),
                    lambda id: qa.create_task_push_notification_config(
                        TaskPushNotificationConfig(task_id=id, url="https://192.0.2.1/")
                    ),
                    lambda id: told(qa, _going_on(id)),
                )
                for call in calls:
                    with pytest.raises(TaskNotFoundError):
                        await call(id)
                    refused += 1
            theirs = await qa.list_tasks(ListTasksRequest())
            running = await eng.get_task(GetTaskRequest(id=watched))
            await eng.cancel_task(CancelTaskRequest(id=watched))
            await watch.aclose()
            return refused, list(theirs.tasks), running.status.state

    assert asyncio.run(ask()) == (10, [], TaskState.TASK_STATE_WORKING)


def _going_on(id):
    request = asking("users")
    request.message.task_id = id
    return request


def test_a_watch_tells_each_critical_entry_until_it_is_cancelled(site):
    eng = site.memory.as_agent("eng")

    async def ask():
        events, text = [], []
        async with client_of(site, "qa") as client:
            async with asyncio.timeout(30):
                async for event in client.send_message(
                    asking("users", skill="briefing", watch=True)
                ):
                    events.append(event)
                    if event.WhichOneof("payload") != "artifact_update":
                        continue
                    artifact = event.artifact_update.artifact
                    if artifact.name == "briefing":
                        await asyncio.to_thread(eng.append, "a note", "api/users")
                    elif artifact.name == "critical":
                        text.append(MessageToDict(artifact.parts[0].data)["entry"]["body"])
                    if len(text) < 2:
                        await asyncio.to_thread(
                            eng.append, f"down {len(text)}", "api/users", priority="critical"
                        )
                    else:
                        id = event.artifact_update.task_id
                        cancelled = await client.cancel_task(CancelTaskRequest(id=id))
        return events, text, cancelled.status.state

    events, text, state = asyncio.run(ask())
    assert text == ["down 0", "down 1"]
    assert state == TaskState.TASK_STATE_CANCELED
    assert states(events) == ["TASK_STATE_WORKING", "TASK_STATE_CANCELED"]
    assert site.app.state.hub.streams["a2a"] == 0


def test_a_watch_ends_with_its_token(site):
    token = site.token("qa")
    id = TokenFile(site.tokens).find(token).id

    async def ask():
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(headers=headers, verify=PLAIN, timeout=30) as http:
            client = await create_client(
                site.address, client_config=ClientConfig(httpx_client=http)
            )
            seen = []
            async with asyncio.timeout(30):
                async for event in client.send_message(asking(skill="briefing", watch=True)):
                    seen.append(event)
                    if event.WhichOneof("payload") == "artifact_update":
                        await asyncio.to_thread(revoke, site.tokens, id)
            return seen

    assert states(asyncio.run(ask())) == ["TASK_STATE_WORKING", "TASK_STATE_FAILED"]


def test_a_client_of_03_is_served(site):
    client = site.client("eng")

    def call(method, params):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return client.post("/a2a", json=body)

    message = {
        "kind": "message",
        "messageId": "old-1",
        "role": "user",
        "parts": [{"kind": "text", "text": "as 0.3 does"}],
        "metadata": {EXTENSION: {"skill": "append", "namespace": "api/old"}},
    }
    results = [call("message/send", {"message": message}).json()["result"] for _ in range(2)]
    assert [result["status"]["state"] for result in results] == ["completed"] * 2
    assert [result["kind"] for result in results] == ["task"] * 2
    (entry,) = site.memory.as_agent("operator").read()
    assert entry.body == "as 0.3 does"
    got = call("tasks/get", {"id": results[0]["id"]}).json()["result"]
    assert entry.id in got["artifacts"][0]["parts"][0]["text"]
    question = {**message, "messageId": "old-2", "metadata": {}}
    lines = call("message/stream", {"message": question}).text.splitlines()
    kinds = [json.loads(line[5:])["result"]["kind"] for line in lines if line.startswith("data:")]
    assert kinds == ["task", "status-update", "artifact-update", "status-update"]


# -- notifications ---------------------------------------------------------------------------------


class Receiver(BaseHTTPRequestHandler):
    """Takes notifications, the first not at once."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked += 1
        self.send_response(503 if self.server.asked == 1 else 204)
        if self.server.asked > 1:
            self.server.got.append((self.headers["x-a2a-notification-token"], json.loads(body)))
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.got, server.asked = [], 0
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_critical_entry_is_sent_to_an_allowed_address(serve, receiver):
    site = serve(TEAM, push=Push(("127.0.0.1",)))
    push = TaskPushNotificationConfig(
        url=f"http://127.0.0.1:{receiver.server_address[1]}/hook", token="t-1"
    )
    eng = site.memory.as_agent("eng")

    async def ask():
        async with client_of(site, "qa", streaming=False) as client:
            watch = asking(skill="briefing", watch=True, push=push, wait=False)
            id = (await task_of(client, watch)).id
            async with asyncio.timeout(30):  # until it watches
                while not any("briefing" in json.dumps(body) for _, body in receiver.got):
                    await asyncio.sleep(0.02)
            await asyncio.to_thread(eng.append, "it is down", "api/x", priority="critical")
            async with asyncio.timeout(30):
                while not any("it is down" in json.dumps(body) for _, body in receiver.got):
                    await asyncio.sleep(0.02)
            await client.cancel_task(CancelTaskRequest(id=id))
            async with asyncio.timeout(30):
                while "TASK_STATE_CANCELED" not in json.dumps(receiver.got[-1]):
                    await asyncio.sleep(0.02)

    asyncio.run(ask())
    assert {token for token, _ in receiver.got} == {"t-1"}
    forms = [next(iter(body)) for _, body in receiver.got]
    assert forms[0] == "task"
    assert forms[-1] == "statusUpdate"
    critical = [
        body["artifactUpdate"]["artifact"]
        for _, body in receiver.got
        if body.get("artifactUpdate", {}).get("artifact", {}).get("name") == "critical"
    ]
    assert [part["parts"][0]["data"]["entry"]["body"] for part in critical] == ["it is down"]


class Rebinding:
    """A resolver whose names lead to a public number when an address is named, and then elsewhere."""

    def __init__(self):
        self.asked = 0

    def __call__(self, host, port, **_):
        self.asked += 1
        number = "93.184.216.34" if host.startswith("turns") and self.asked % 2 else "127.0.0.1"
        return [(2, 1, 6, "", (number, port))]


_connects = []
_hooked = []


def _audit(event, arguments):
    if _hooked and event == "socket.connect":
        _connects.append(arguments[1])


sys.addaudithook(_audit)


def hostile(port):
    return [
        f"http://127.0.0.1:{port}/",
        f"https://127.0.0.1:{port}/",
        f"http://localhost:{port}/",
        f"https://[::1]:{port}/",
        f"https://[::ffff:127.0.0.1]:{port}/",
        f"https://0.0.0.0:{port}/",
        f"https://2130706433:{port}/",
        f"https://0x7f.1:{port}/",
        "https://169.254.169.254/latest/meta-data/",
        "https://10.0.0.1/",
        "https://[fe80::1%25eth0]/",
        f"https://user@127.0.0.1:{port}/",
        "file:///etc/passwd",
        f"https://leads-inside.example:{port}/",
        f"https://turns.example:{port}/",
    ]


def test_hostile_addresses_are_never_connected_to(serve, receiver):
    """The last one is public when it is named, and leads inside once something is to be sent."""
    resolver = Rebinding()
    site = serve(TEAM, push=Push((), Wire(resolver)))
    port = receiver.server_address[1]

    async def ask():
        refused = 0
        async with client_of(site, "eng", streaming=False) as client:
            for url in hostile(port):
                resolver.asked = 0
                push = TaskPushNotificationConfig(url=url)
                try:
                    await task_of(client, asking("users", push=push))
                except A2AError:
                    refused += 1
        return refused

    async def none_waits():
        async with asyncio.timeout(30):
            while resolver.asked < 2:
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)

    assert len(hostile(port)) == 15
    _hooked.append(True)
    try:
        assert asyncio.run(ask()) == 14
        asyncio.run(none_waits())
    finally:
        _hooked.clear()
    own = int(site.address.rpartition(":")[2])
    assert [place for place in _connects if place[1] != own] == []
    assert _connects  # the client's own, so that the hook is known to work
    assert receiver.asked == 0


def test_what_belongs_into_no_header_is_refused(site):
    async def ask():
        async with client_of(site, "eng", streaming=False) as client:
            push = TaskPushNotificationConfig(url="https://93.184.216.34/", token="a\r\nhost: b")
            with pytest.raises(A2AError):
                await task_of(client, asking("users", push=push))

    asyncio.run(ask())
