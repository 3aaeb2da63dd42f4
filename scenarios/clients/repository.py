"""The repository of a session, its documentation on the web, and the work that is given out in it.

Everything follows from a cell and a seed: the same in every arm. Pure but for `write`. Knows no
client.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

PACKAGE = "shop"
# The modules of the service, and the limit that each of them sets.
MODULES = {
    "accounts": "PASSWORD_ROUNDS",
    "basket": "BASKET_ITEMS",
    "cache": "CACHE_SECONDS",
    "catalog": "PAGE_SIZE",
    "database": "POOL_SIZE",
    "http_client": "RETRY_LIMIT",
    "images": "THUMBNAIL_WIDTH",
    "mailer": "MAILS_PER_MINUTE",
    "orders": "ORDER_LINES",
    "search": "SEARCH_RESULTS",
    "sessions": "SESSION_MINUTES",
    "webhooks": "WEBHOOK_SECONDS",
}
# of the documentation, and what each says
PAGES = {"limits": "RATE_LIMIT", "payments": "PAYMENT_SECONDS"}
TARGETS = ("checkout", "reports")  # the modules that are changed, one by each task
NEEDS = 6  # limits in the code that a task needs
PROSE = (
    "The service keeps what it can in memory and asks the database for the rest",
    "Callers give identifiers as text and get values that they may not change",
    "A row that is missing is an error of the caller and is answered as such",
    "What takes longer than a request may take is put into the queue of the worker",
    "Times are seconds since the epoch and money is counted in cents",
)


class Cell(NamedTuple):
    """One kind of session. `order` is when the second task begins: `after` the first, or `together`
    with it; `shared` is how many limits both tasks need; `hands_on` tells whether the lead hands on
    what it heard; `brief` whether agents say at the end all in one paragraph, and not in a list
    below a first line.
    """

    name: str
    order: str
    shared: int
    hands_on: bool
    brief: bool
    about: str


CELLS = {
    cell.name: cell
    for cell in (
        Cell(
            "after",
            "after",
            4,
            False,
            False,
            "one after the other, 5 of 7 things needed are the same",
        ),
        Cell(
            "brief",
            "after",
            4,
            False,
            True,
            "as `after`; what agents say at the end is one paragraph",
        ),
        Cell(
            "together",
            "together",
            4,
            False,
            False,
            "both at once, 5 of 7 things needed are the same",
        ),
        Cell(
            "told", "after", 4, True, False, "as `after`, but the lead hands on all that it heard"
        ),
        Cell("apart", "after", 0, False, False, "one after the other, nothing needed is the same"),
    )
}


class Work(NamedTuple):
    """One task: its name, the module to change, the limits that it needs from the code, and the
    page of the documentation that has one more.
    """

    name: str
    target: str
    needs: tuple[str, ...]
    page: str

    @property
    def all_needs(self) -> tuple[str, ...]:
        return (*self.needs, PAGES[self.page])


class Job(NamedTuple):
    """What one session is about: the true values, and its two tasks."""

    values: Mapping[str, int]
    works: tuple[Work, Work]


def job(cell: Cell, seed: int) -> Job:
    """Return the values and the tasks of a seed."""
    random = Random(f"repository {seed}")
    names = list(MODULES.values())
    values = {name: random.randint(1_000, 9_999) for name in (*names, *PAGES.values())}
    random.shuffle(names)
    first = names[:NEEDS]
    second = [*first[: cell.shared], *names[NEEDS : 2 * NEEDS - cell.shared]]
    random.shuffle(second)
    pages = ("limits", "limits" if cell.shared else "payments")
    needs = (tuple(first), tuple(second))
    one, two = (Work(f"task-{n + 1}", TARGETS[n], needs[n], pages[n]) for n in range(2))
    return Job(values, (one, two))


def sources(values: Mapping[str, int]) -> dict[str, str]:
    """Return the text of each file of the repository."""
    texts = {
        f"{PACKAGE}/{name}.py": _module(name, limit, values[limit])
        for name, limit in MODULES.items()
    }
    texts |= {f"{PACKAGE}/{name}.py": _module(name, None, 0) for name in TARGETS}
    texts[f"{PACKAGE}/__init__.py"] = '"""A small shop on the web."""\n'
    texts["README.md"] = (
        "# Shop\n\nA small shop on the web. Every module of `shop/` sets its own limit.\n"
    )
    return texts


def _module(name: str, limit: str | None, value: int) -> str:
    random = Random(f"module {name}")
    head = [
        f'"""The {name.replace("_", " ")} of the shop."""',
        "",
        "from __future__ import annotations",
        "",
    ]
    head += [f"{limit} = {value}", ""] if limit else []
    body: list[str] = []
    for number in range(10):
        say = random.choice(PROSE)
        body += ["", f"def {name}_{number}(key: str, rows: dict[str, int]) -> int:"]
        body += [f'    """{say}."""', f"    total = rows.get(key, {number})"]
        body += [
            "    for other in sorted(rows):",
            "        if other != key:",
            "            total += rows[other]",
        ]
        body += ["    return total", ""]
    return "\n".join([*head, *body, "", f"# end of {name}", ""])


def page(name: str, values: Mapping[str, int]) -> str:
    """Return a page of the documentation, as HTML."""
    random = Random(f"page {name}")
    rows = [f"<p>{random.choice(PROSE)}.</p>" for _ in range(40)]
    rows.insert(20, f"<p>{PAGES[name]} is {values[PAGES[name]]}.</p>")
    return f"<html><body><h1>{name.title()}</h1>{''.join(rows)}</body></html>"


def task_text(work: Work, site: str) -> str:
    """Return what an agent is asked for one task."""
    return (
        f"Task: have {PACKAGE}/{work.target}.py say what its limits come to ({work.name}).\n"
        f"Find out what these are set to in the code: {', '.join(work.needs)}.\n"
        f"Find out {PAGES[work.page]}, which only the page {site}/{work.page} says.\n"
        f"Then put one line above the last one of {PACKAGE}/{work.target}.py: "
        f"`{line_of(work.name, 'SUM')}`, with the sum of all these values.\n"
        "At the end say what you did and what you found out."
    )


def line_of(work: str, total: int | str) -> str:
    """Return the line that a task asks for. No value stands in it by itself: the repository is to
    hand nothing on between the two tasks.
    """
    return f"# {work}: the limits sum to {total}"


def is_right(work: Work, text: str, values: Mapping[str, int]) -> bool:
    """Tell whether a changed module has the line that was asked for, made of the true values."""
    return line_of(work.name, sum(values[name] for name in work.all_needs)) in text.splitlines()


def write(folder: str, values: Mapping[str, int]) -> None:
    """Write the repository, with one commit."""
    for name, text in sources(values).items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    who = [
        "-c",
        "user.name=Shop",
        "-c",
        "user.email=shop@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        [*who, "commit", "-q", "-m", "A shop"],
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
