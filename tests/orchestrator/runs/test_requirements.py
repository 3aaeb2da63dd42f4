"""What a run needs to go on, and what becomes of it where a process does not have that."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.anthropic import Anthropic
from orchestrator.engines.process import ClaudeCode
from orchestrator.engines.protocol import declared
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.run_store.recovery import recover
from orchestrator.runs import requirements
from orchestrator.runs.files.folder import STEPS
from orchestrator.runs.intent import intent_of
from orchestrator.spend.limits import Limits
from orchestrator.tools.functions import tool_of

KEY = {"ANTHROPIC_API_KEY": "secret"}


def look(page: str) -> str:
    """Look at a page."""
    return f"{page} is fine"


def look_again(page: str) -> str:
    """The same by another description."""
    return ""


def look_wider(page: str, wide: bool = False) -> str:
    return ""


def look_up(page: int) -> str:
    return ""


def signed(*functions):
    return requirements.signatures(tool_of(each, name="look").tool for each in functions)


def offer(env=None, given=None, tools=(), engines=None):
    return requirements.Offer(
        lambda name: declared(engines, name), env or {}, given or {}, signed(*tools)
    )


def lacks(begun, here, *names):
    """What a process lacks for a run that was begun by another, as the record has it."""
    return requirements.lacking(
        json.loads(json.dumps(requirements.record(names, begun, tools=True))), here
    )


def test_a_tool_is_the_same_in_whatever_order_its_schema_is_written():
    one = tool_of(look_wider, name="look").tool
    other = one._replace(schema=dict(reversed(one.schema.items())))
    assert list(one.schema) != list(other.schema)
    assert requirements.signatures([one]) == requirements.signatures([other])


@pytest.mark.parametrize(
    ("there", "here", "lacking"),
    [
        ([look], [look], ()),
        ([look], [look_again], ()),
        ([], [look], ()),
        ([look], [], ("tool look(page)",)),
        ([look], [look_wider], ("tool look(page), not look(page, wide)",)),
        ([look], [look_up], ("tool look(page) with the types that it had",)),
    ],
)
def test_tools_are_needed_by_name_and_schema(there, here, lacking):
    assert lacks(offer(tools=there), offer(tools=here), "scripted") == lacking


GATEWAY = {"kind": "openai-chat", "base_url": "http://me:secret@gateway:8080/v1", "model": "m"}
OTHERS = {"kind": "openai-chat", "base_url": "http://gateway:9090/v1", "model": "n"}
PAID = {"kind": "anthropic", "api_key": "secret"}
OWN_ENV = {"kind": "claude-code", "env": {"ANTHROPIC_API_KEY": "secret"}}


@pytest.mark.parametrize(
    ("name", "there", "here", "lacking"),
    [
        ("scripted", {}, {}, ()),
        ("anthropic", {"env": KEY}, {"env": {"ANTHROPIC_API_KEY": "another"}}, ()),
        ("anthropic", {"env": KEY}, {"env": {"ANTHROPIC_AUTH_TOKEN": "t"}}, ()),
        ("anthropic", {"env": KEY}, {"env": {"ANTHROPIC_API_KEY": ""}}, ("key ANTHROPIC_API_KEY",)),
        ("anthropic", {}, {}, ()),  # it had none
        ("anthropic", {"env": KEY}, {"engines": {"anthropic": PAID}}, ()),
        ("mine", {"engines": {"mine": PAID}}, {"engines": {"mine": PAID}}, ()),
        ("mine", {"engines": {"mine": GATEWAY}}, {"engines": {"mine": OTHERS}}, ()),
        ("mine", {"engines": {"mine": GATEWAY}}, {}, ("engine mine of the kind openai-chat",)),
        ("mine", {"engines": {"mine": GATEWAY}}, {"engines": {"mine": "x"}}, ("engine mine",)),
        (
            "openai-chat",
            {"env": {"OPENAI_BASE_URL": "http://localhost:1/v1"}},
            {},
            ("engine openai-chat at localhost",),
        ),
        (
            "openai-chat",
            {},
            {"env": {"OPENAI_BASE_URL": "http://localhost:1/v1"}},
            ("engine openai-chat at the address of its provider",),
        ),
        ("openai-chat", {"env": {"OPENAI_BASE_URL": "http://[not"}}, {}, ()),  # no address at all
        ("claude-code", {"env": KEY}, {"env": KEY}, ()),
        ("claude-code", {"env": KEY}, {"engines": {"claude-code": OWN_ENV}}, ()),
        ("claude-code", {"env": KEY}, {}, ("key ANTHROPIC_API_KEY",)),
    ],
)
def test_engines_are_needed_with_their_key_and_their_host(name, there, here, lacking):
    assert lacks(offer(**there), offer(**here), name) == lacking


def test_a_client_needs_its_program(tmp_path):
    (tmp_path / "claude").write_text("")
    (tmp_path / "claude").chmod(0o700)
    there = offer(env={"PATH": str(tmp_path)})
    here = offer(env={"PATH": str(tmp_path / "other")})
    assert lacks(there, there, "claude-code") == ()
    assert lacks(there, here, "claude-code") == ("program claude",)
    mine = {"mine": {"kind": "process", "command": [sys.executable, "-c", "--key=secret"]}}
    assert lacks(offer(engines=mine), offer(engines=mine), "mine") == ()


class Other(Scripted):
    name = "other"


@pytest.mark.parametrize(
    ("there", "here", "lacking"),
    [
        (Scripted(), Scripted(lambda seen: "Done."), ()),
        (Scripted(), None, ("engine mine, which its program made",)),
        (Scripted(), Other(), ("engine mine of the kind Scripted",)),
        (Anthropic(api_key="secret"), Anthropic(api_key="another"), ()),
    ],
)
def test_engines_that_were_given_are_matched_by_name_and_kind(there, here, lacking):
    assert (
        lacks(
            offer(env=KEY, given={"mine": there}),
            offer(given={"mine": here} if here else {}),
            "mine",
        )
        == lacking
    )


def test_one_that_was_given_stands_in_for_one_of_its_kind(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    assert lacks(offer(), offer(given={"scripted": Scripted()}), "scripted") == ()
    assert lacks(offer(), offer(given={"scripted": Other()}), "scripted") == (
        "engine scripted of the kind scripted",
    )
    assert lacks(offer(), offer(given={"claude-code": ClaudeCode()}), "claude-code") == ()
    # it takes its key from the environment
    begun = offer(env=KEY, given={"anthropic": Anthropic()})
    assert lacks(begun, offer(given={"anthropic": Anthropic()}), "anthropic") == (
        "key ANTHROPIC_API_KEY",
    )


def test_no_secret_is_recorded():
    engines = {
        "a": GATEWAY,
        "b": PAID,
        "c": OWN_ENV,
        "d": {"kind": "process", "command": "agent --key=secret"},
    }
    record = json.dumps(
        requirements.record((*engines, "anthropic"), offer(env=KEY, engines=engines), tools=True)
    )
    assert "secret" not in record
    assert requirements.sha256(b"secret")[:8] not in record
    assert json.loads(record)["engines"]["a"] == {"kind": "openai-chat", "host": "gateway"}
    assert json.loads(record)["engines"]["anthropic"] == {
        "kind": "anthropic",
        "key": "ANTHROPIC_API_KEY",
    }


def test_whoever_is_above_waits_too():
    runs = [
        {"run": "top"},
        {"run": "mid", "parent": "top"},
        {"run": "low", "parent": "mid"},
        {"run": "by", "parent": "top"},
    ]
    found = requirements.waiting(runs, lambda run: ("tool x()",) if run["run"] == "low" else ())
    own = "waits for its own program: tool x()"
    assert found == {
        "low": own,
        "mid": f"waits for low, which {own}",
        "top": f"waits for low, which {own}",
    }
    assert requirements.waiting(runs, lambda run: ("tool x()",) if run["run"] == "top" else ()) == {
        "top": own
    }
    assert requirements.waiting(runs[2:], lambda run: ("tool x()",)).keys() == {
        "low",
        "by",
    }  # who lives waits as it does


# -- under a supervisor ----------------------------------------------------------------


def busy(seen):
    return Move("", (("look", {"page": "a"}),)) if seen.turn == 0 else Move("never", takes=100_000)


def left(here, **options):
    """What another supervisor leaves, which looks as often as it takes to bury a run."""
    with Supervisor(
        here.mem, **({"engine": Scripted(), "seed": 8, "inline": True} | options)
    ) as other:
        looks = [recover(other.run_store) for _ in range(6)]
    assert [each.runs for each in looks] == [[]] * 6
    assert [each.waiting for each in looks] == [looks[0].waiting] * 6
    return looks[0].waiting


def records(here):
    return [each.fields for each in here.mem.store.log.since(0) if each.kind == "run"]


def test_a_run_is_left_alone_where_its_tools_are_not(world):
    here = world(busy, tools=[look])
    run = here.dies("Work", "eng-a", after=10)
    before = records(here)
    assert left(here) == {run: "waits for its own program: tool look(page)"}
    assert records(here) == before
    assert here.known(run).attempts == 1
    (result,) = here.resumed(lambda seen: seen.messages[-1].text, tools=[look])
    assert (result.run, result.status, result.text) == (run, "done", "a is fine")


def test_what_is_left_alone_counts_for_no_limit(world):
    here = world(busy, tools=[look])
    run = here.dies("Work", "eng-a", after=10)
    with Supervisor(here.mem, engine=Scripted(lambda seen: "Done."), seed=8, inline=True) as other:
        other.run_store.costs.policy = other.run_store.costs.policy._replace(day=Limits(live=1))
        assert here.time.run(other.spawn(Task("Something else", "eng-b"))).done
    assert (here.known(run).running, here.known(run).epoch) == (True, 1)


def test_the_same_work_is_refused_with_what_it_waits_for(world):
    here = world(busy, tools=[look])
    run = here.dies("Work", "eng-a", after=10)
    with Supervisor(here.mem, engine=Scripted(busy), seed=8, inline=True) as other:
        with pytest.raises(
            synapse.Conflict, match=r"tool look\(page\).*orchestrator stop"
        ) as refused:
            here.time.run(other.spawn(Task("Work", "eng-a")))
        assert refused.value.run == run
        other.run_store.runs.stop(run, "operator", "not wanted any more")
        task = Task("Work", "eng-a", timeout=60)
        assert here.time.run(other.spawn(task)).run != run, "it is done anew"


def test_what_was_stopped_is_ended_by_anybody(world):
    other = Other(busy)
    here = world(other, tools=[look])
    run = here.dies("Work", "eng-a", after=10)
    assert set(left(here)) == {run}
    here.supervisor.run_store.runs.stop(run, "operator", "not wanted any more")
    calls = []
    (result,) = here.resumed(lambda seen: calls.append(seen) or "Done.")
    assert (result.run, result.status, result.why, calls) == (
        run,
        "stopped",
        "not wanted any more",
        [],
    )


def test_a_run_is_offered_what_it_was_begun_with(world):
    """Who goes on with it may have more."""
    here = world(lambda seen: Move("never", takes=100_000), memory_tools="never")
    here.dies("Work", "eng-a", after=10)
    (result,) = here.resumed(lambda seen: str([tool.name for tool in seen.tools]), tools=[look])
    assert result.text == "[]"


def test_an_engine_that_cannot_be_made_is_not_there(world, tmp_path, monkeypatch):
    (tmp_path / "own_engine.py").write_text(
        "from orchestrator.engines.scripted import Scripted as Own\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    here = world(Scripted())
    here.supervisor.close()
    named = {"engine": "own_engine:Own", "seed": 7, "inline": True}
    here.supervisor = Supervisor(here.mem, **named)
    assert here.spawn("Work", "eng-a").status == "played"

    async def begins():
        async with here.supervisor:
            run = await here.supervisor.start(Task("More", "eng-a"))
            await here.supervisor._abandon()
            return run.id

    run = here.time.run(begins())
    here.supervisor.run_store.lease.close()
    monkeypatch.delitem(sys.modules, "own_engine")
    (tmp_path / "own_engine.py").unlink()
    same = left(here, engine="own_engine:Own")
    assert "the engine 'own_engine:Own' cannot be made" in same[run]
    assert "no file of a workspace names a class" in left(here)[run]


# -- families --------------------------------------------------------------------------


class Client(Scripted):
    """Without tools, as coding clients are."""

    name = "client"
    takes_tools = False


def lead(seen):
    if seen.turn == 0:
        return Move("", (("spawn_agent", {"agent": "eng-a", "task": "A part"}),))
    return Move("", (("wait", {}),)) if seen.turn == 1 else f"Heard: {'A is done' in seen.text}"


@pytest.fixture
def family(world):
    """A lead that waits for an engineer on an engine of its own; its supervisor has died."""

    def made(**options):
        slow = Client(lambda seen: Move("never", takes=100_000))
        here = world(Scripted(lead), engines={"client": slow}, **options)
        here.mem.register(synapse.Agent("eng-a", department="web", engine="client"))
        top = here.dies("All of it", "lead", after=10)
        (child,) = here.supervisor.run_store.runs.children(top)
        return here, top, child.id

    return made


def test_a_child_goes_on_while_its_parent_waits(family):
    here, top, _ = family(tools=[look])
    done = Client(lambda seen: "A is done.")
    with Supervisor(
        here.mem, engine=Scripted(), engines={"client": done}, seed=8, inline=True
    ) as other:

        async def once():
            async with other:
                taken, left = await other.recover()
                return [(await other.result(run)).status for run in taken], left

        statuses, waits = here.time.run(once())
    assert (statuses, waits) == (["done"], {top: "waits for its own program: tool look(page)"})
    (result,) = here.resumed(lead, tools=[look])
    assert (result.run, result.text) == (top, "Heard: True")


def test_a_parent_waits_with_its_child(family):
    """It could do nothing but wait: whoever held it would do so for ever, and each crash would
    count for it.
    """
    here, top, child = family()
    own = "waits for its own program: engine client, which its program made"
    assert left(here) == {child: own, top: f"waits for {child}, which {own}"}
    results = here.resumed(Scripted(lead), engines={"client": Client(lambda seen: "A is done.")})
    assert [(result.run, result.text) for result in results] == [
        (top, "Heard: True"),
        (child, "A is done."),
    ]


def test_who_lives_waits_until_its_child_is_gone_on_with(family, world):
    """The child's supervisor has died, the parent's has not: it is told once somebody has what the
    child needs.
    """
    here, top, child = family()
    one = Supervisor(here.mem, engine=Scripted(lead), seed=8, inline=True)
    done = {"client": Client(lambda seen: "A is done.")}
    two = Supervisor(here.mem, engine=Scripted(lead), engines=done, seed=9, inline=True)

    async def both():
        async with one, two:
            mine = one.run_store.runs.take(here.known(top), one.run_store.lease.name, 1)
            one._begin(mine)
            await asyncio.sleep(60)
            assert here.known(child).epoch == 1
            (taken,) = (await two.recover()).runs
            return taken.id, await one.result(mine)

    with one, two:
        taken, result = here.time.run(both())
    assert (taken, result.status, result.text) == (child, "done", "Heard: True")


def test_below_a_run_others_are_begun_as_by_its_own_program(world):
    """Whoever goes on with a lead has another engine for those whose files name none."""
    here = world(Scripted(lambda seen: Move("never", takes=100_000)), model="m")
    top = here.dies("All of it", "lead", after=10)
    given = {"scripted": Scripted(lead)}
    results = here.resumed(Other(lambda seen: "I am another."), engines=given, model="n")
    assert [result.run for result in results] == [top]
    (child,) = here.supervisor.run_store.runs.children(top)
    assert (child.fields["engine"], child.fields["model"]) == ("scripted", "m")


# -- what was begun before -------------------------------------------------------------


def test_a_run_of_an_older_version_goes_on_where_its_work_is_asked_for(world):
    here = world(Scripted(lambda seen: "Done."))
    task, run_store = Task("Work", "eng-a"), here.supervisor.run_store
    key = f"intent:{intent_of(task.text, project=task.project, agent=task.agent)}"
    about = {"engine": "scripted", "model": None, "intent": key}
    run = run_store.runs.begin(
        "eng-a-older", task, run_store.agent("eng-a"), "gone", None, None, **about
    )
    assert run.needs is None
    assert left(here) == {run.id: f"waits for its own program: {requirements.UNRECORDED}"}
    result = here.spawn("Work", "eng-a")
    assert (result.run, result.status, result.repeated) == (run.id, "done", "")


# -- templates -------------------------------------------------------------------------


def test_with_other_templates_a_run_waits_until_its_work_is_asked_for(world):
    """Its recorded prompt is sent as it is, by whoever goes on with it."""
    times = iter([100_000])

    def script(seen):
        return Move(seen.system.split("\n")[0], takes=next(times, 0))

    here = world(script)
    run = here.dies("Work", "eng-a", after=10)
    prompt = here.folder(run).read(STEPS).partition("\n")[0]
    folder = Path(here.mem.store.root, "prompts")
    folder.mkdir(exist_ok=True)
    (folder / "engineer.md.j2").write_text("You are somebody else.\n")
    (why,) = left(here).values()
    assert why.startswith("waits for its own program: prompt templates of version ")
    with Supervisor(here.mem, engine=Scripted(script), seed=8, inline=True) as other:
        result = here.time.run(other.spawn(Task("Work", "eng-a")))
    assert (result.run, result.status) == (run, "done")
    assert json.loads(prompt)["system"].startswith(result.text)


def test_with_the_same_templates_again_it_goes_on(world):
    here = world(lambda seen: Move("never", takes=100_000))
    run = here.dies("Work", "eng-a", after=10)
    other = Path(here.mem.store.root, "prompts", "engineer.md.j2")
    other.parent.mkdir(exist_ok=True)
    other.write_text("You are somebody else.\n")
    assert set(left(here)) == {run}
    other.unlink()
    (result,) = here.resumed(lambda seen: "Done.")
    assert (result.run, result.status) == (run, "done")


# -- in plain Python -------------------------------------------------------------------


def test_resume_returns_what_came_of_what_it_went_on_with(world):
    here = world(busy, tools=[look])
    run = here.dies("Work", "eng-a", after=10)
    with Supervisor(here.mem, engine=Scripted(lambda seen: "Done."), tools=[look]) as other:
        assert [(result.run, result.status) for result in other.resume()] == [(run, "done")]
        assert other.resume() == []


@pytest.mark.parametrize(
    ("act", "instead"),
    [("run", r"await supervisor\.spawn\(task\)"), ("resume", r"await supervisor\.take_over\(\)")],
)
def test_in_a_coroutine_they_say_what_to_write(tmp_path, act, instead):
    async def main(supervisor):
        supervisor.run(Task("x", "eng-a")) if act == "run" else supervisor.resume()

    with synapse.init(str(tmp_path / "ws")) as memory, Supervisor(memory) as supervisor:
        refused = pytest.raises(synapse.SynapseError, match=instead)
        with refused:
            asyncio.run(main(supervisor))


class Keyed:
    """An engine that a program made, under the name of one that takes a key."""

    name = "anthropic"


class Keyless(Keyed):
    own_key = False


@pytest.mark.parametrize(("engine", "key"), [(Keyed(), None), (Keyless(), "ANTHROPIC_API_KEY")])
def test_the_key_of_an_engine_that_a_program_made_is_its_own_affair(engine, key):
    """Unless it says that it takes it from the environment."""
    begun = offer(env=KEY, given={"mine": engine})
    needs = requirements.record(["mine"], begun, tools=False)
    assert needs["engines"]["mine"].get("key") == key
