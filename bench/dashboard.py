"""The pages of the dashboard: how long the server takes for each, asked over one connection."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

from bench.figures import Goal, Row, timed
from bench.ground import Ground
from bench.serving import child, request
from bench.workload import READER

PAGE = Goal("p95", 0.15)
CALLS = 40
PAGES = (
    "/",
    "/timeline",
    "/entries",
    "/entries?page=20",
    "/entries?q=endpoint",
    "/entries?priority=critical&namespace=api/*",
    "/review",
    "/threads",
    "/as-of",
    "/as-of?at=24h",
    "/agents",
    "/departments",
    "/nights",
    "/runs",
    "/lanes",
    "/costs",
    "/unread-results",
    "/wakes",
)
PARTS = ("/days", "/nights/remarks", "/entries/count?author={author}", "/as-of/view?at=24h")
ENTRY = re.compile(r'class="title" href="/entries/([^"]+)"')
AUTHOR = re.compile(r'href="/agents/([^"]+)" class="by"')


def pages(ground: Ground) -> Iterator[Row]:
    """Ask for each page as the operator, and for the parts that follow a page."""
    ground.close()
    with ground.open(frozen=False) as mem:
        mem.as_agent(READER).search("endpoint")  # the first one fills the full text in
    with child("pages", [ground.root, f"{ground.root}-tokens"]) as port:
        listed = request(port, "", "GET", "/entries")().decode()
        entry, author = (
            quote(found[1]) if (found := pattern.search(listed)) else "none"
            for pattern in (ENTRY, AUTHOR)
        )
        of_one = (f"/entries/{entry}", f"/agents/{author}")
        for path in (*PAGES, *of_one):
            seconds = timed(request(port, "", "GET", path), calls=CALLS)
            yield Row(f"page: {path}", ground.size, seconds.values("p95"), None, (PAGE,))
        later = (
            *(part.format(author=author) for part in PARTS),
            f"/entries/{entry}/acts",
            f"/entries/{entry}/reach",
            f"/agents/{author}/reputation",
        )
        for path in later:
            seconds = timed(request(port, "", "GET", path), calls=5)
            yield Row(f"part: {path}", ground.size, seconds.values("p95"))
