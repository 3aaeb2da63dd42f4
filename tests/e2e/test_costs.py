"""What the plugin adds to the requests of each real client, of the main conversation and of a
sub-agent: with an empty memory, and with three critical entries. A token is one of o200k, of the
whole request's JSON.

`pytest -m soak tests/e2e/test_costs.py -s` prints the table of docs/how-to/coding-clients.md and of
the clients' facts.
"""

import html
import json
import re
import shutil
import subprocess
from threading import Event
from typing import NamedTuple

import pytest

import synapse
from orchestrator.engines.scripted import Move
from orchestrator.plugin import facts
from orchestrator.plugin.doctor import checks as doctor
from synapse import Agent
from synapse.system.tokens import Tokens
from tests.e2e import (
    test_claude_plugin,
    test_codex_plugin,
    test_gemini_plugin,
    test_openclaw_plugin,
)
from tests.e2e.conftest import CodexProject
from tests.model_server import ModelServer

pytestmark = pytest.mark.soak

TASK, PART = "Say hello.", "PART: greet the world."
ALONE, EMPTY, CRITICAL = ARMS = ("alone", "empty", "critical")
MAIN, AGENT = CONVERSATIONS = ("main", "agent")
# the request whose tokens are told: all that comes late has come by then
COUNTED = {MAIN: 2, AGENT: 1}
WORDS = (
    "The payment service of the shop is being moved to the new cluster this week, so"
    " nobody may deploy to the old one,"
    " change its settings, or restart its workers before the operators have said that"
    " all of the queues are empty;"
    " whoever has to, asks in the channel of the operators first, and writes down what was done"
)
RULES = tuple(f"Rule {number}: {WORDS}." for number in ("one", "two", "three"))
VIEW = re.compile(
    r"You are `[\w-]+` of a team with a shared memory.*?</memory-[0-9a-f]+>\n?", re.DOTALL
)
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PASSING = re.compile(r"[0-9a-f]{6,}|\d+")
UNREAD = ("metadata", "client_metadata")
PATIENCE = 60
# by how much the requests of two runs may differ, and by how many tokens what is added
NEAR, CLOSE = 0.03, 40
COUNT = Tokens().count


# -- sessions --------------------------------------------------------------------------------------


def script(call, spawn):
    """Make a model that calls a tool in each conversation, and has a sub-agent in the main one."""

    def model(seen):
        if not seen.tools:
            return "Nothing."
        if seen.turn == 0:
            return call(seen)
        if TASK not in "\n".join(
            message.text for message in seen.messages if message.role != "assistant"
        ):
            return "Hello, world."
        return spawn(seen) if seen.turn == 1 else "Hello."

    return model


def write_rules(root):
    with synapse.open(str(root)) as memory:
        memory.register(Agent("ops", "cto", read=("*",), write=("*",)))
        for rule in RULES:
            memory.as_agent("ops").append(rule, "decisions/all", priority="critical")


class Arm(NamedTuple):
    """With what a session is played; `shown` gets the view that the doctor counts before it."""

    name: str
    shown: list[str]


def prepare(project, client, arm):
    if arm.name != ALONE:
        project.orchestrator("install", client)
    if arm.name == CRITICAL:
        write_rules(project.root)
        with synapse.open(str(project.root)) as memory:
            arm.shown.extend(doctor.view_of_lead(memory, facts.load(client)))


def claude(programs, folder, arm):
    project = test_claude_plugin.Project(programs / "claude", folder)
    prepare(project, "claude-code", arm)
    # a person's first prompt comes after the server is there, too
    waits = {"MCP_CONNECTION_NONBLOCKING": "0"}
    project.env = lambda url, env=project.env: {**env(url), **waits}
    model = script(
        lambda seen: test_claude_plugin.bash("true"), lambda seen: test_claude_plugin.agent(PART)
    )
    with ModelServer(model) as server:
        project.ask(server.url, TASK)
        return [taken.body for taken in server.journal]


def codex(model, programs, folder, arm):
    def call(seen):
        return test_codex_plugin.call(seen, exec_command={"cmd": "true"})

    def spawn(seen):
        return test_codex_plugin.spawn(seen, PART)

    def moves(seen):
        is_main = TASK in "\n".join(
            message.text for message in seen.messages if message.role != "assistant"
        )
        return (
            test_codex_plugin.wait(seen)
            if is_main and seen.turn == 2
            else script(call, spawn)(seen)
        )

    project = CodexProject(folder, programs, moves)
    try:
        project.orchestrator = lambda *words: project.run("orchestrator", *words)
        prepare(project, "codex", arm)
        project.codex(model, prompt=TASK)
        return project.requests
    finally:
        project.server.stop()


def gemini(programs, folder, arm):
    project = test_gemini_plugin.Project(programs, folder, ())
    # as a user has it: in a repository that is told to leave the workspace out
    shutil.rmtree(project.root)
    subprocess.run(["git", "init", "-q", str(project.work)], check=True)
    prepare(project, "gemini", arm)

    def call(seen):
        return Move("", (("read_file", {"file_path": "src/tariff.py"}),))

    def spawn(seen):
        return Move("", (("invoke_agent", {"agent_name": "generalist", "prompt": PART}),))

    def model(seen):
        if test_gemini_plugin.is_child(seen) and seen.turn == 1:
            return Move("", (test_gemini_plugin.completes("Hello, world."),))
        return script(call, spawn)(seen)

    project.gemini(model, TASK)
    return project.bodies


def openclaw(programs, folder, arm):
    claw = test_openclaw_plugin.Claw(programs, folder, ())
    is_done = Event()

    def call(seen):
        return Move("", (("read", {"path": "src/tariff.py"}),))

    def spawn(seen):
        return Move("", (("sessions_spawn", {"task": PART, "label": "engineer"}),))

    def model(seen):
        if test_openclaw_plugin.is_child(seen):
            if seen.turn == 1:
                is_done.set()
        elif seen.turn == 2:
            # else its end is the first thing that the memory has for the sub-agent
            assert is_done.wait(PATIENCE)
        return script(call, spawn)(seen)

    try:
        prepare(claw, "openclaw", arm)
        claw.up().say(TASK, model)
        return [taken.body for taken in claw.server.journal]
    finally:
        claw.down()


CLIENTS = {
    "claude-code": claude,
    "codex": lambda *given: codex(test_codex_plugin.NEW, *given),
    "codex, older": lambda *given: codex(test_codex_plugin.OLD, *given),
    "gemini": gemini,
    "openclaw": openclaw,
}


# -- what was counted ------------------------------------------------------------------------------


class Counted(NamedTuple):
    """The tokens of a request: of its tools, of the view in it, and of all the rest."""

    tools: int
    view: int
    rest: int

    @property
    def all(self):
        return sum(self)


class Requests:
    """The requests of a client in each arm and conversation."""

    def __init__(self, client, programs, folder):
        self.client, self.bodies, self.shown = client, {}, []
        for name in ARMS:
            base = folder / name
            base.mkdir()
            made = [
                without_names(body, base)
                for body in CLIENTS[client](programs, base, Arm(name, self.shown))
            ]
            for who in CONVERSATIONS:
                self.bodies[name, who] = [body for body in made if conversation(body) == who]

    def own(self, who):
        """Return the tokens of a conversation's first request without the plugin."""
        return COUNT(dumped(self.bodies[ALONE, who][0]))

    def counted(self, arm, who):
        body = self.bodies[arm, who][COUNTED[who]]
        tools = COUNT(dumped(body.get("tools", [])))
        view = sum(COUNT(dumped(view)) for view in views_in(body))
        return Counted(tools, view, COUNT(dumped(body)) - tools - view)

    def added(self, who):
        """Return the tokens that the plugin adds of an empty memory."""
        alone, empty = (self.counted(arm, who) for arm in (ALONE, EMPTY))
        return Counted(empty.tools - alone.tools, empty.view, empty.rest - alone.rest)


def without_names(body, base):
    """Return a request without what no model reads, and with the same ids and folders in each
    run.
    """
    text = dumped({name: part for name, part in body.items() if name not in UNREAD})
    return json.loads(ID.sub("0", text.replace(str(base), "/base")))


def dumped(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def conversation(body):
    """Return whose request it is, or None of one beside the conversations."""
    words = dumped({name: part for name, part in body.items() if name != "tools"})
    if not body.get("tools") and "additional_tools" not in words:
        return None
    return MAIN if TASK in words else AGENT if PART in words else None


def texts(value):
    """Yield every text that stands in a request beside its tools, as the model reads it."""
    if isinstance(value, str):
        yield html.unescape(value)
    elif isinstance(value, dict | list):
        for part in (
            value if isinstance(value, list) else [value[name] for name in value if name != "tools"]
        ):
            yield from texts(part)


def views_in(body):
    return [view for text in texts(body) for view in VIEW.findall(text)]


def known(body):
    """Return a request's texts without what passes, and without its view."""
    return {PASSING.sub("0", VIEW.sub("", text)).strip() for text in texts(body)}


@pytest.fixture(scope="module", params=CLIENTS)
def requests(request, installed, tmp_path_factory):
    return Requests(request.param, installed, tmp_path_factory.mktemp("costs").resolve())


@pytest.fixture(scope="module")
def table():
    """The lines of the table, printed when all clients have been looked at."""
    lines = []
    yield lines
    print(
        "\n" + "\n".join(("client, conversation: own | tools + listing = percent | view", *lines))
    )


# -- tests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", CONVERSATIONS)
def test_an_empty_memory_adds_what_names_the_plugin_and_nothing_of_its_hooks(requests, who):
    for number in (0, 1):
        alone, empty = (requests.bodies[arm, who][number] for arm in (ALONE, EMPTY))
        assert views_in(empty) == []
        new = known(empty) - known(alone)
        assert [text for text in new if "synapse" not in text and "team" not in text] == []
        assert [
            text for text in new if "<memory-" in text or "hook additional context" in text
        ] == []


@pytest.mark.parametrize("who", CONVERSATIONS)
def test_three_criticals_add_their_view_once_to_a_conversation(requests, who):
    for body in requests.bodies[CRITICAL, who]:
        (view,) = views_in(body)
        assert [view.count(rule) for rule in RULES] == [1, 1, 1]
        assert [dumped(body).count(rule) for rule in RULES] == [1, 1, 1]


def test_the_doctor_counts_the_view_that_a_session_is_given(requests):
    (given,) = views_in(requests.bodies[CRITICAL, MAIN][0])
    assert given.strip() == "\n".join(requests.shown).strip()


def test_the_facts_have_what_was_counted(requests, table):
    name, _, older = requests.client.partition(", ")
    raw = facts.load(name).raw.get(older, {}) if older else facts.load(name).raw
    for who in CONVERSATIONS:
        added = requests.added(who)
        own = requests.own(who)
        view = requests.counted(CRITICAL, who).view
        share = f"{100 * added.all / own:.1f} %"
        table.append(
            f"{requests.client}, {who}: {own:,} | {added.tools:,} + {added.rest:,} ="
            f" {share} | {view:,}"
        )
    for who, key in ((MAIN, "request"), (AGENT, "agent")):
        added, own = requests.added(who), requests.own(who)
        assert abs(raw["baseline"][key] - own) <= NEAR * own
        assert abs(raw["adds"]["tools"] - added.tools) <= CLOSE
        assert abs(raw["adds"]["listing"] - added.rest) <= CLOSE
