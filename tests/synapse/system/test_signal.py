import os
import stat
import threading
import time

import pytest

from synapse.system.signal import NotificationPipe, notify


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "bells")


def test_every_bell_rings(place):
    pipes = [NotificationPipe(place) for _ in range(3)]
    assert notify(place) == 3
    assert [bell.wait(1) for bell in pipes] == [True] * 3
    assert [bell.wait(0) for bell in pipes] == [False] * 3
    for bell in pipes:
        bell.close()
    assert notify(place) == 0
    assert os.listdir(place) == []


def test_many_rings_are_one(place):
    bell = NotificationPipe(place)
    for _ in range(5):
        notify(place)
    assert bell.wait(1)
    assert not bell.wait(0)
    bell.close()


def test_ringing_never_blocks(place):
    """Not where nobody listens, nor where a listener is deaf, nor where there is no bell at all."""
    assert notify(place) == 0
    bell = NotificationPipe(place)
    started = time.monotonic()
    rung = [notify(place) for _ in range(70_000)]
    assert rung[0] == 1
    assert rung[-1] == 0
    assert time.monotonic() - started < 60
    assert bell.wait(1)
    assert notify(place) == 1
    bell.close()
    bell.close()


def test_it_wakes_a_sleeper(place):
    bell = NotificationPipe(place)
    threading.Timer(0.05, notify, (place,)).start()
    started = time.monotonic()
    assert bell.wait(120)
    assert time.monotonic() - started < 30
    bell.close()


def test_a_bell_of_the_dead_is_swept_away(place):
    bell = NotificationPipe(place)
    os.close(bell.fd)
    assert notify(place) == 0
    assert os.path.exists(bell.path)  # young: somebody may be about to open it
    time.sleep(1.1)
    os.utime(bell.path)
    assert notify(place) == 0
    time.sleep(1.1)
    notify(place)
    assert not os.path.exists(bell.path)


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_is_no_bell_is_left_alone(place, tmp_path, kind):
    os.mkdir(place)
    thing, target = os.path.join(place, "thing"), tmp_path / "target"
    target.write_text("kept")
    if kind == "file":
        with open(thing, "w") as file:
            file.write("kept")
    elif kind == "link":
        os.symlink(target, thing)
    else:
        os.mkdir(thing)
    notify(place)
    assert os.path.lexists(thing)
    assert target.read_text() == "kept"


def test_a_lost_bell_hangs_itself_up_again(place):
    bell = NotificationPipe(place)
    os.unlink(bell.path)
    assert not bell.wait(0)
    assert notify(place) == 1
    assert bell.wait(1)
    bell.close()


def test_it_listens_to_another_descriptor_too(place):
    bell = NotificationPipe(place)
    read, write = os.pipe()
    os.write(write, b"x")
    assert bell.wait(0, also=read)
    os.read(read, 1)
    assert not bell.wait(0, also=read)
    bell.close()
    os.close(read), os.close(write)


def test_where_no_bell_can_hang_waiting_is_all(tmp_path):
    (tmp_path / "bells").write_text("a file")
    bell = NotificationPipe(str(tmp_path / "bells"))
    started = time.monotonic()
    assert not bell.wait(0.05)
    assert 0.04 < time.monotonic() - started < 30
    bell.close()


def test_others_may_ring_but_not_listen(place):
    bell = NotificationPipe(place)
    mode = stat.S_IMODE(os.stat(bell.path).st_mode)
    assert not mode & (stat.S_IRGRP | stat.S_IROTH)
    bell.close()


def test_a_wake_does_not_write_into_another_file(place, tmp_path, monkeypatch):
    """Closed by its thread just before the write, its descriptor is another file's by then."""
    bell = NotificationPipe(place)
    write = os.write
    other = []

    def close():
        bell.close()
        other.append(os.open(tmp_path / "journal", os.O_RDWR | os.O_CREAT))

    closer = threading.Thread(target=close)

    def late(fd, data):
        closer.start()
        closer.join(0.2)
        return write(fd, data)

    monkeypatch.setattr(os, "write", late)
    bell.wake()
    closer.join()
    assert os.fstat(other[0]).st_size == 0
    os.close(other[0])
