"""Fixtures of a workspace in PostgreSQL."""

import os
from itertools import count

import pytest

import synapse

NAMES = count()


@pytest.fixture
def url(postgres_server):
    """Return the address of a workspace that nobody has used."""
    return postgres_server.url(f"w{os.getpid()}_{next(NAMES)}")


@pytest.fixture
def machine(tmp_path, url):
    """Return what opens the workspace as another machine does, in a folder of its own."""
    opened, numbers = [], count(1)

    def open_another(root=None, log=url, **more):
        root = root or tmp_path / f"machine-{next(numbers)}"
        opened.append(synapse.init(root, log=log, **more))
        return opened[-1]

    yield open_another
    for memory in opened:
        memory.close()


@pytest.fixture
def proxy(postgres_server):
    """Return what passes on to the server, and can lose what it answers."""
    from tests.postgres import Proxy

    proxy = Proxy(postgres_server.port)
    yield proxy
    proxy.close()
