"""What stands on a page: texts of others with nothing hidden in them, times as people say them,
numbers, short ids.

Every value that a template prints passes `shown`, then Jinja's escaping. Called by the frame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from synapse.history.sentences import Act, sentence
from synapse.model import clock
from synapse.model.entry import NEVER, SECOND
from synapse.system.quoting import clean, one_line

DATED = re.compile(r"syn-\d{4}-(\d\d-\d\d-\d{3,12})")
IDS = re.compile(r"\bsyn-\d{4}-\d\d-\d\d-\d{3,12}\b|\b(?:syn|msg|fact|atom)_[0-9a-f]{12}\b")
LONGEST = 240  # characters of a sentence
STEPS = ((60, 1, "s"), (3_600, 60, "min"), (86_400, 3_600, "h"), (0, 86_400, "d"))


def shown(value: Any) -> Any:
    """Return a value for a page: text with every hidden character spelled out, None as nothing."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return clean(value)
    return "" if value is None else value


def span(seconds: float) -> str:
    """Return a length of time in one unit: `3 min`."""
    passed = max(0, int(seconds))
    for end, unit, name in STEPS:
        if passed < end or not end:
            return f"{passed // unit} {name}"
    raise AssertionError


def ago(at: int | None) -> Markup:
    """Return a moment as `3 min ago`, with the exact time to be had from it."""
    if not at or at >= NEVER:
        return Markup("never")
    passed = (clock.now() - at) / SECOND
    text = (
        "now" if abs(passed) < 1 else f"{span(passed)} ago" if passed > 0 else f"in {span(-passed)}"
    )
    exact = clock.seconds(at)
    return Markup('<time datetime="{0}" title="{1}">{2}</time>').format(
        exact, exact.replace("T", " ").replace("Z", " UTC"), text
    )


def number(value: float) -> str:
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def signed(value: int) -> str:
    return f"{value:+d}" if value else "0"


def plural(count: int, one: str, many: str = "") -> str:
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def addressed(names: Iterable[str]) -> str:
    """Return to whom something is, as people say it: `lead, team web`."""
    return ", ".join(name.removeprefix("agent:").replace(":", " ") for name in names)


def part(text: str) -> str:
    """Return a text as one part of an address."""
    return quote(text, safe="")


def first_line(text: str, most: int = 160) -> str:
    """Return the first line of a text that says something, cut where it is long."""
    line = next((row.strip() for row in text.split("\n") if row.strip()), "")
    line = line.lstrip("#*->` ") or line
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def short(id: str) -> str:
    """Return an id as people tell it from others: `11-23-001`, `msg_0123456`."""
    match = DATED.fullmatch(id)
    return match[1] if match else id if len(id) <= 14 else f"{id[:12]}…"


def copyable(text: str, words: str = "") -> Markup:
    """Return an id or a command with a button that copies all of it."""
    return Markup(
        '<span class="copy"><code>{1}</code><button type="button" data-copy="{0}"'
        ' aria-label="Copy {0}" title="Copy"></button></span>'
    ).format(clean(text), clean(words or text))


def id_link(id: str) -> Markup:
    """Return the short form of an id that leads to its entry."""
    return Markup('<a class="id" href="/entries/{0}" title="{1}">{2}</a>').format(
        part(id), clean(id), clean(short(id))
    )


def linked(text: str) -> Markup:
    """Return a text in which the ids of entries lead to them."""
    markup, last = Markup(), 0
    for match in IDS.finditer(text):
        markup += Markup("{}{}").format(clean(text[last : match.start()]), id_link(match[0]))
        last = match.end()
    return markup + clean(text[last:])


def act_words(act: Act) -> Markup:
    """Return the sentence about an act, who did it in bold, with its entries to be had from it."""
    by, _, act_text = sentence(act).partition(" ")
    if len(act_text) > LONGEST:
        act_text = f"{act_text[:LONGEST].rpartition(' ')[0] or act_text[:LONGEST]} …"
    return Markup("<b><bdi>{}</bdi></b> {}").format(clean(by), linked(one_line(act_text)))


def beginning(text: str, lines: int, size: int) -> str:
    """Return how a long text begins: so many lines, and so many characters at most."""
    cut = "\n".join(text.split("\n", lines)[:lines])[:size]
    return f"{cut.rstrip()} …"


def day(text: str) -> str:
    """Return a day as people say it: `today`, `yesterday`, `Friday 20 November 2026`."""
    today = clock.now()
    near = {clock.day(today): "Today", clock.day(today - clock.DAY): "Yesterday"}
    return near.get(text) or f"{date.fromisoformat(text):%A %-d %B %Y}"


def hour(at: int) -> Markup:
    """Return the time of day of a moment, with the whole of it to be had."""
    exact = clock.seconds(at)
    return Markup('<time datetime="{0}" title="{1}">{2}</time>').format(
        exact, exact.replace("T", " ").replace("Z", " UTC"), exact[11:16]
    )


def exact(at: int) -> str:
    return clock.seconds(at).replace("T", " ").replace("Z", " UTC")


def lines(text: str) -> list[tuple[str, str]]:
    """Return the lines of a view, each with what it is: a heading (`h2`, `h3`), the head of an
    entry (`item`), what an entry says (`quote`), or `text`. Its title is left out.
    """
    rows: list[tuple[str, str]] = []
    for row in text.split("\n"):
        kind, content = _line(row)
        if kind == "item" and ") > " in content:
            head, _, quoted = content.partition(") > ")
            rows += [("item", f"{head})"), ("quote", quoted)]
        elif rows and kind == rows[-1][0] and kind in ("quote", "text"):
            rows[-1] = (kind, f"{rows[-1][1]}\n{content}")
        elif content and kind != "h1":
            rows.append((kind, content))
    return rows


def _line(row: str) -> tuple[str, str]:
    rank, bare = len(row) - len(row.lstrip("#")), row.strip()
    if 1 <= rank <= 3 and row[rank : rank + 1] == " ":
        return f"h{rank}", row[rank + 1 :]
    if row.startswith("- "):
        return "item", row[2:]
    return ("quote", bare[1:].strip()) if bare.startswith(">") else ("text", bare)


FILTERS: dict[str, Callable[..., Any]] = {
    "addressed": addressed,
    "ago": ago,
    "beginning": beginning,
    "cleaned": one_line,
    "copyable": copyable,
    "day": day,
    "exact": exact,
    "first_line": first_line,
    "hour": hour,
    "id_link": id_link,
    "lines": lines,
    "linked": linked,
    "number": number,
    "part": part,
    "plural": plural,
    "short": short,
    "signed": signed,
    "span": span,
    "told": act_words,
}
