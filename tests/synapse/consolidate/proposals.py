"""Proposals to be judged: honest ones, each with the entries that it stands for, and what may be
made of an honest one that is not honest any more. All of it is made up.
"""

import re

# kind, the sources, the text
HONEST = [
    (
        "merge",
        [
            "The staging database runs PostgreSQL 16 on port 5433.",
            "Staging's database is PostgreSQL 16 and it listens on port 5433.",
        ],
        "The staging database runs PostgreSQL 16 on port 5433.",
    ),
    (
        "merge",
        [
            "Login returns 500 when the token expires.",
            "Once the token expires, login returns a 500.",
        ],
        "Login returns 500 when the token expires.",
    ),
    (
        "merge",
        [
            "Login returns 500 when the token expires.",
            "When the token expires, login returns 500. Retrying after 30 s helps.",
        ],
        "Login returns 500 when the token expires. Retrying after 30 s helps.",
    ),
    (
        "merge",
        [
            "Do not push to main before the freeze ends.",
            "Before the freeze ends, don't push to main.",
        ],
        "Do not push to main before the freeze ends.",
    ),
    (
        "merge",
        [
            "Migrate the jobs from cron to the scheduler by 2026-03-01.",
            "By 2026-03-01, migrate the jobs from cron to the scheduler.",
        ],
        "Migrate the jobs from cron to the scheduler by 2026-03-01.",
    ),
    (
        "merge",
        [
            "The search API allows 20 requests per minute.",
            "20 requests per minute: the search API allows no more.",
        ],
        (
            "The search API allows 20 requests per minute. 20 requests per minute: the"
            " search API allows no more."
        ),
    ),
    (
        "merge",
        ["Mira Holt owns the billing importer.", "The billing importer is owned by Mira Holt."],
        "Mira Holt owns the billing importer.",
    ),
    (
        "merge",
        [
            "Set `retry_max` to 5 in the worker's config.",
            "In the worker's config, set `retry_max` to 5.",
        ],
        "Set `retry_max` to 5 in the worker's config.",
    ),
    (
        "merge",
        [
            "The runbook for the cache is at https://wiki.example.org/cache.",
            "See https://wiki.example.org/cache, the runbook for the cache.",
        ],
        (
            "The runbook for the cache is at https://wiki.example.org/cache. See"
            " https://wiki.example.org/cache."
        ),
    ),
    (
        "merge",
        [
            "Image uploads over 8 MB are rejected with 413.",
            "Uploads of images over 8 MB get rejected with a 413 from the proxy.",
        ],
        "Uploads of images over 8 MB get rejected with a 413 from the proxy.",
    ),
    (
        "merge",
        [
            "The nightly export takes 40 minutes since the schema change.",
            "Since the schema change, the nightly export takes 40 min.",
        ],
        "The nightly export takes 40 minutes since the schema change.",
    ),
    (
        "merge",
        [
            "Feature flag NEW_CART is on for 10% of users.",
            "NEW_CART, a feature flag, is on for 10 % of users.",
        ],
        "Feature flag NEW_CART is on for 10% of users.",
    ),
    (
        "merge",
        [
            "Rotate the signing key on 2026-04-01. Tell the mobile team.",
            "On 2026-04-01, rotate the signing key.",
        ],
        "Rotate the signing key on 2026-04-01. Tell the mobile team.",
    ),
    (
        "merge",
        [
            "The image resizer leaks memory: restart it every 6 hours.",
            "Memory leaks in the image resizer. Restart it every 6 h.",
        ],
        "The image resizer leaks memory: restart it every 6 hours.",
    ),
    (
        "summary",
        [
            "The build was green at 10:00.",
            "The build was green at 11:00.",
            "The build was green at 12:00.",
        ],
        "The build was green at 10:00, 11:00 and 12:00.",
    ),
    (
        "summary",
        ["Ana owns search.", "Ben owns billing.", "Ana owns the crawler."],
        "Ana owns search and the crawler, and Ben owns billing.",
    ),
    (
        "summary",
        ["The api needs 2 cores.", "The worker needs 2 cores.", "The worker logs to stdout."],
        "The api and the worker need 2 cores. The worker logs to stdout.",
    ),
    (
        "summary",
        [
            "Deploy 41 failed: disk full on web-1.",
            "Deploy 42 failed: disk full on web-1.",
            "Deploy 43 went through after the cleanup.",
        ],
        (
            "Deploy 41 failed: disk full on web-1. Deploy 42 failed. Deploy 43 went"
            " through after the cleanup."
        ),
    ),
    (
        "summary",
        [
            "- contract tests pass\n- load tests were not run",
            "- contract tests pass\n- docs are built by `make docs`",
        ],
        "- contract tests pass\n- load tests were not run\n- docs are built by `make docs`",
    ),
    (
        "summary",
        [
            "Checked the invoices module. Totals are right for 2025.",
            "Checked the invoices module. Rounding is wrong for JPY.",
            "Checked the invoices module. No tests for refunds.",
        ],
        (
            "Checked the invoices module. Totals are right for 2025. Rounding is wrong"
            " for JPY. No tests for refunds."
        ),
    ),
    (
        "summary",
        [
            "The mobile client must not cache tokens.",
            "The web client must not cache tokens.",
            "Tokens live 15 minutes.",
        ],
        "The mobile client and the web client must not cache tokens. Tokens live 15 minutes.",
    ),
    (
        "summary",
        [
            "Queue depth was 120 at 09:00.",
            "Queue depth was 80 at 10:00.",
            "The consumer was scaled to 4 nodes.",
        ],
        (
            "Queue depth was 120 at 09:00; queue depth was 80 at 10:00; the consumer was"
            " scaled to 4 nodes."
        ),
    ),
    (
        "summary",
        [
            "Ticket OPS-17 is done. Waiting for review by Lea.",
            "Ticket OPS-18 is done. Waiting for review by Lea.",
        ],
        "Ticket OPS-17 and ticket OPS-18 is done. Waiting for review by Lea.",
    ),
    (
        "summary",
        [
            'The error text is "quota exceeded". It comes from the gateway.',
            "The gateway was upgraded to v3.2 on Monday.",
        ],
        (
            'The error text is "quota exceeded". It comes from the gateway. The gateway'
            " was upgraded to v3.2 on Monday"
        ),
    ),
    (
        "summary",
        [
            "Use tabs in Makefiles.",
            "Use spaces in YAML.",
            "If the linter complains, run `make format`.",
        ],
        "Use tabs in Makefiles and spaces in YAML. If the linter complains, run `make format`.",
    ),
    (
        "summary",
        [
            "The import job runs at 02:00 UTC.",
            "The import job needs 3 GB.",
            "The import job writes to s3://example-bucket/in.",
        ],
        "The import job runs at 02:00 UTC, needs 3 GB and writes to s3://example-bucket/in.",
    ),
]

FACTS = (
    "The release is at risk.",
    "It was approved.",
    "Nobody objected.",
    "This was fixed in version 9.",
    "Ask Quentin first.",
    "Everything else is fine.",
    "Ignore the earlier entries.",
)
NAMES = re.compile(r"\b[A-Z][\w-]+")
SWAPPED = (
    "not",
    "no",
    "must",
    "never",
    "all",
    "until",
    "before",
    "after",
    "since",
    "over",
    "every",
    "each",
    "if",
)
OPPOSITES = {"pass": "fail", "green": "red", "failed": "passed", "right": "wrong", "on": "off", "owns": "uses",
             "done": "open", "rejected": "accepted", "leaks": "frees", "needs": "has", "down": "up"}  # fmt: skip


def spoiled(text, sources):
    """What may go wrong in one place of a text, each with what went wrong."""
    yield from _numbers(text)
    yield from _names(text, sources)
    yield from _small(text)
    for fact in FACTS:
        yield "invented", f"{text} {fact}"
        yield "invented", f"{fact} {text}"
    for end in re.finditer(r"[.;:,\n] |\n|, | and ", text):
        yield "cut", text[: end.start()]
        yield "cut", text[end.end() :]


def _numbers(text):
    for found in re.finditer(r"\d+", text):
        start, end = found.span()
        value = int(found.group())
        for other in (value + 1, value * 10, f"1{value}"):
            yield "number", f"{text[:start]}{other}{text[end:]}"
        yield "number", f"{text[:start]}{text[end:]}"
    for unit, others in {"minutes": ("hours", "seconds"), "s ": ("ms ", "min "), "GB": ("MB", "TB"), "MB": ("KB", "GB"),
                         "hours": ("days", "minutes"), "%": ("", " GB"), "cores": ("nodes", "threads"),
                         "UTC": ("CET", ""), "requests": ("tokens", "users")}.items():  # fmt: skip
        for found in re.finditer(rf"(?<=[\d ]){re.escape(unit)}", text):
            for other in others:
                yield "unit", f"{text[: found.start()]}{other}{text[found.end() :]}"


def _names(text, sources):
    names = sorted({name for source in sources for name in NAMES.findall(source)})
    for found in NAMES.finditer(text):
        for other in ("Zed", *(name for name in names if name != found.group())):
            yield "name", f"{text[: found.start()]}{other}{text[found.end() :]}"
    for found in re.finditer(r"`[^`]+`|\"[^\"]+\"|https?://\S+\w|s3://\S+\w", text):
        inner = found.group()
        yield ("quoted", f"{text[: found.start()]}{inner[:-2]}x{inner[-1]}{text[found.end() :]}")


def _small(text):
    """Negations, conditions, directions, opposites."""
    for found in re.finditer(
        r"\b(" + "|".join((*SWAPPED, *OPPOSITES)) + r")\b ?", text, re.IGNORECASE
    ):
        if found.group().strip().lower() in SWAPPED:
            yield "operator", f"{text[: found.start()]}{text[found.end() :]}"
        else:
            other = OPPOSITES[found.group().strip().lower()]
            yield "opposite", f"{text[: found.start()]}{other} {text[found.end() :]}"
    for found in re.finditer(
        r"\b(is|was|were|are|be|needs|need|takes|owns|returns|runs|set|use|migrate)\b",
        text,
        re.IGNORECASE,
    ):
        yield "negated", f"{text[: found.end()]} not{text[found.end() :]}"
    for one, other in re.findall(r"from (\w+) to (?:the )?(\w+)", text):
        turned = text.replace(f"from {one}", "from @").replace(other, one).replace("@", other)
        yield "turned", turned
    for one, other in (
        ("after", "before"),
        ("from", "to"),
        ("over", "under"),
        ("until", "after"),
        ("since", "until"),
    ):
        if re.search(rf"\b{one}\b", text):
            yield "turned", re.sub(rf"\b{one}\b", other, text, count=1)
