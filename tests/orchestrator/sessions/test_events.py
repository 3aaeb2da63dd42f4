"""What a program is told while its runs are at work, and in which order."""

import asyncio
import threading

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.protocol import Usage
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.sessions.events import KINDS
from synapse.errors import InvalidEntry


class Priced(Scripted):
    name = "priced"

    async def step(self, request, interrupt):
        turn = await super().step(request, interrupt)
        return turn._replace(usage=Usage(90, 10, cost=0.01))


def play(seen):
    """The lead gives to an engineer, who is blocked until the boss answers."""
    if " lead" in seen.system.split("\n")[0]:
        if not seen.turn:
            return Move("I begin.", (("spawn_agent", {"agent": "eng-a", "task": "A"}),))
        return Move("", (("wait", {}),)) if seen.turn == 1 else "All is done."
    return "Blocked: which port?" if seen.turn < 1 else "Done on 8080."


def test_a_tree_is_told_as_it_goes(world):
    events = []
    here = world(Priced(play), on_event=events.append)
    result = here.spawn("Lead it", "lead", "web")
    assert {event.kind for event in events} <= {*KINDS}
    lead = [event for event in events if event.agent == "lead"]
    assert [event.kind for event in lead[:4]] == ["started", "step", "cost", "step"]
    assert (lead[0].text, lead[0].parent) == ("Lead it", None)
    assert lead[1].text == "I begin.; calls spawn_agent"
    assert lead[3].text.startswith("Started eng-a-")
    engineer = [event for event in events if event.agent == "eng-a"]
    assert [event.kind for event in engineer][:3] == ["started", "step", "cost"]
    (blocked,) = [event for event in engineer if event.kind == "blocked"]
    assert blocked.text == "which port?"
    assert (engineer[-1].kind, engineer[-1].result.status) == ("done", "blocked")
    assert (engineer[-1].root, engineer[-1].parent) == (result.run, result.run)
    assert (events[-1].kind, events[-1].result) == ("done", result)


def test_a_cost_is_that_of_the_tree_so_far(world):
    events = []
    here = world(Priced(play), on_event=events.append)
    result = here.spawn("Lead it", "lead", "web")
    costs = [event.tree.cost for event in events if event.kind == "cost"]
    assert costs == pytest.approx([0.01 * n for n in range(1, len(costs) + 1)])
    last = [event for event in events if event.kind == "cost"][-1]
    assert last.tree == result.tree


def test_news_names_its_entries(world):
    def working(seen):
        return (
            Move("", (("read", {"namespace": "api/*"}),), takes=1.0) if seen.turn < 4 else "Done."
        )

    events = []
    here = world(working, on_event=events.append)
    here.spawn("Work", "eng-a", also=[here.later(1.5, lambda: here.says("Use /v2"))])
    (news,) = [event for event in events if event.kind == "news"]
    assert here.mem.as_agent("eng-a").get(news.entries[0]).body == "Use /v2"
    assert "Use /v2" in news.text


def test_a_listener_that_fails_ends_no_run(world):
    asked = []

    def fails(event):
        asked.append(event.kind)
        raise ValueError("I am a bug of yours")

    here = world(lambda seen: "Done.", on_event=fails)
    assert here.spawn("Work", "eng-a").done
    assert asked == ["started", "step", "cost", "done"]


def test_in_one_thread_though_the_memory_has_its_own():
    threads, kinds = set(), []

    def listen(event):
        threads.add(threading.get_ident())
        kinds.append(event.kind)

    with synapse.open("memory:") as mem:
        mem.register(synapse.Agent("eng-a"))
        engine = Scripted(lambda seen: "Done.")
        with Supervisor(mem, engine=engine, on_event=listen) as supervisor:
            assert supervisor.run(Task("Work", "eng-a")).done
            supervisor.run(Task("More", "eng-a"))
    assert threads == {threading.get_ident()}
    assert kinds == ["started", "step", "cost", "done"] * 2


def test_a_queue_makes_an_async_iterator_of_them():
    async def main(mem):
        queue = asyncio.Queue()
        engine = Scripted(lambda seen: "Done.")
        with Supervisor(mem, engine=engine, on_event=queue.put_nowait) as supervisor:
            running = asyncio.create_task(supervisor.spawn(Task("Work", "eng-a")))
            kinds = []
            while (event := await queue.get()).kind != "done":
                kinds.append(event.kind)
            return kinds, await running, event.result

    with synapse.open("memory:") as mem:
        mem.register(synapse.Agent("eng-a"))
        kinds, result, told = asyncio.run(main(mem))
    assert kinds == ["started", "step", "cost"]
    assert told == result


@pytest.mark.parametrize("listener", ["print", 3])
def test_what_cannot_be_called_is_refused(listener):
    with synapse.open("memory:") as mem, pytest.raises(InvalidEntry, match="on_event"):
        Supervisor(mem, engine=Scripted(play), on_event=listener)


def test_a_coroutine_function_is_refused():
    async def listen(event):
        raise AssertionError("nobody awaits it")

    with synapse.open("memory:") as mem, pytest.raises(InvalidEntry, match="on_event"):
        Supervisor(mem, engine=Scripted(play), on_event=listen)
