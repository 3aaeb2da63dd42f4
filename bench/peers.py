"""What people have instead: one file per entry, read with python-frontmatter, and LangGraph's
SqliteStore.

Runs under whatever interpreter has them: `PYTHON -m bench.peers langgraph SIZE DIRECTORY NOW`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from bench.figures import Timing, timed
from bench.workload import DAY, GLOBS, WRITERS, Item, items

PREFIXES = [tuple(glob.removesuffix("/*").split("/")) for glob in GLOBS]


def covered(namespace: str) -> bool:
    """Whether the reader's globs cover a namespace; `x/*` is x and all below it."""
    prefixes = (glob.removesuffix("/*") for glob in GLOBS)
    return any(namespace == prefix or namespace.startswith(f"{prefix}/") for prefix in prefixes)


def scanned(root: str, since: str) -> list[str]:
    """The page of important and critical entries, by reading every file: ids, newest first."""
    import frontmatter

    found, gone = [], set()
    for folder, _, names in os.walk(os.path.join(root, "entries")):
        for name in names:
            post = frontmatter.load(os.path.join(folder, name))
            fields = post.metadata
            gone.add(fields.get("supersedes"))
            time = str(fields["timestamp"]).replace(" ", "T")
            if fields["priority"] != "info" and covered(str(fields["namespace"])) and time >= since:
                found.append((time, str(fields["id"])))
    return [id for _, id in sorted(found, reverse=True) if id not in gone][:50]


class LangGraph:
    """Its SqliteStore, filled with the workload; the namespace is the tuple of its parts."""

    def __init__(self, directory: str) -> None:
        import sqlite3

        from langgraph.store.sqlite import SqliteStore  # type: ignore[import-not-found, unused-ignore]

        path = os.path.join(directory, "langgraph.db")
        self.store: Any = SqliteStore(
            sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        )
        self.store.setup()

    def fill(self, entries: list[Item]) -> None:
        from langgraph.store.base import PutOp  # type: ignore[import-not-found, unused-ignore]

        for start in range(0, len(entries), 500):
            part = entries[start : start + 500]
            self.store.batch(
                [PutOp(tuple(e.namespace.split("/")), e.id, value_of(e)) for e in part]
            )

    def append(self, entry: Item) -> None:
        self.store.put(tuple(entry.namespace.split("/")), entry.id, value_of(entry))

    def page(self, since: int) -> list[str]:
        """As well as it can be asked: per prefix, filtered and limited, then put in order here."""
        found = []
        for prefix in PREFIXES:
            for priority in ("critical", "important"):
                asked = {"priority": priority, "at": {"$gte": since}}
                found += self.store.search(prefix, filter=asked, limit=50)
        return [item.key for item in sorted(found, key=lambda item: -item.value["at"])[:50]]


def value_of(entry: Item) -> dict[str, object]:
    return {name: value for name, value in entry._asdict().items() if name != "namespace"}


def langgraph(size: str, directory: str, now: str) -> dict[str, dict[str, float]]:
    peer = LangGraph(directory)
    peer.fill(list(items(int(size), int(now))))
    page = timed(lambda: peer.page(int(now) - 7 * DAY), calls=100)
    more = iter(items(200, int(now), seed=11))

    def append() -> None:
        item = next(more)
        peer.append(item._replace(id=f"{item.id}-{WRITERS[0]}"))

    written: Timing = timed(append, calls=190)
    return {"page": page.values(), "append": written.values()}


if __name__ == "__main__":
    print(json.dumps({"langgraph": langgraph}[sys.argv[1]](*sys.argv[2:])))
