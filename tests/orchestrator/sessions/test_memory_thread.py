"""The desk: act after act, and what has to be seen through is."""

import asyncio
import threading

import pytest

from orchestrator.sessions.memory_thread import MemoryThread


@pytest.fixture(params=[False, True], ids=["a thread", "inline"])
def desk(request):
    made = MemoryThread(inline=request.param)
    yield made
    made.close(lambda: None)


def test_acts_are_done_in_their_order_and_on_one_thread(desk):
    done = []

    def act(n):
        done.append((n, threading.get_ident()))
        return n

    async def asked():
        aside = [desk.aside(act, n) for n in range(5)]
        return [await desk(act, 5), *[await each for each in aside]]

    assert asyncio.run(asked()) == [5, 0, 1, 2, 3, 4]
    assert [n for n, _ in done] == list(range(6))
    assert len({thread for _, thread in done}) == 1
    assert (done[0][1] == threading.get_ident()) == desk.inline


def test_an_error_reaches_whoever_asked(desk):
    async def asked():
        aside = desk.aside(int, "one")
        with pytest.raises(ValueError, match="one"):
            await aside
        with pytest.raises(ValueError, match="two"):
            await desk.through(desk(int, "two"))

    asyncio.run(asked())


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("through", [True, False])
def test_what_is_seen_through_outlives_whoever_asked(through, times):
    """However often it is cancelled, and though it still waits for its turn at the desk."""
    desk, going, gone = MemoryThread(), threading.Event(), []

    async def booked():
        await desk(gone.append, "booked")

    async def asked():
        before = desk.aside(going.wait)
        task = asyncio.create_task(desk.through(booked()) if through else booked())
        for _ in range(times):
            await asyncio.sleep(0.01)
            task.cancel()
        await asyncio.sleep(0.01)
        going.set()
        await before
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asked())
    desk.close(lambda: gone.append("closed"))
    assert gone == (["booked"] if through else []) + ["closed"]
