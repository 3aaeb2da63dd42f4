"""Virtual time: nothing waits, and nothing that is ready is passed over."""

import asyncio
import os
import threading

import pytest

from orchestrator.testing.virtual import LOOK, VirtualTime


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_no_time_passes_over_a_file_that_is_ready(pipe):
    time, seen = VirtualTime(), []

    async def waits():
        asyncio.get_running_loop().add_reader(
            pipe[0], lambda: seen.append((os.read(pipe[0], 1), time.elapsed))
        )
        os.write(pipe[1], b"x")
        await asyncio.sleep(100)

    time.run(waits())
    assert seen == [(b"x", 0.0)]
    assert time.elapsed == 100


@pytest.mark.parametrize("how", ["file", "thread"])
def test_a_loop_that_is_busy_hears_of_both(pipe, how):
    time, heard = VirtualTime(), asyncio.Event()

    async def busy():
        loop = asyncio.get_running_loop()
        loop.add_reader(pipe[0], lambda: (os.read(pipe[0], 1), heard.set()))
        if how == "file":
            os.write(pipe[1], b"x")
        else:
            other = threading.Thread(target=loop.call_soon_threadsafe, args=(heard.set,))
            other.start()
            other.join()
        rounds = 0
        while not heard.is_set() and rounds < 10 * LOOK:
            await asyncio.sleep(0)
            rounds += 1
        return rounds

    assert time.run(busy()) <= 2 * LOOK
    assert time.elapsed == 0
