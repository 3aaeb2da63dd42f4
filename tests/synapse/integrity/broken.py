"""Three directories that break PROTOCOL.md: what `conformance.check` must reject."""

from __future__ import annotations

import os

_AGENT = "id: {id}\nrole: engineer\ndepartment: backend\n"
_HEAD = (
    "---\nid: {id}\nfrom: {author}\ntimestamp: 2026-02-01T01:00:00Z\nnamespace:"
    " {place}\npriority: info\n"
)
_BACKEND = {
    "synapse.yaml": "protocol: 1\n",
    "agents/eng-backend.yaml": _AGENT.format(id="eng-backend"),
}


def _text(number: int, place: str, author: str = "eng-backend", more: str = "") -> str:
    return (
        _HEAD.format(id=f"syn-2026-02-01-{number:03d}", author=author, place=place)
        + f"{more}---\n\nDone.\n"
    )


BROKEN = {
    # one id twice, and entries that claim another namespace than their folder, or none there can be
    "places": {
        **_BACKEND,
        "entries/status/backend/syn-2026-02-01-001.md": _text(1, "status/backend"),
        "entries/blockers/syn-2026-02-01-001.md": _text(1, "blockers"),
        "entries/status/backend/syn-2026-02-01-002.md": _text(2, "../../outside"),
        "entries/status/backend/syn-2026-02-01-003.md": _text(3, "decisions"),
    },
    "texts": {  # a key twice, a text that stops in the middle, a link that leads out
        **_BACKEND,
        "entries/blockers/syn-2026-02-01-001.md": _text(1, "blockers", more="from: r2d2\n"),
        "entries/blockers/syn-2026-02-01-002.md": _text(2, "blockers")[:60],
        "entries/blockers/syn-2026-02-01-003.md": "-> ../../../outside.md",
    },
    "claims": {  # a protocol that nobody knows yet, and authors that are not who they say
        **_BACKEND,
        "synapse.yaml": "protocol: 1000000\n",
        "agents/eng-frontend.yaml": _AGENT.format(id="r2d2"),
        "entries/decisions/syn-2026-02-01-001.md": _text(1, "decisions"),
        "inbox/eng-backend/new/one.md": _text(2, "blockers", author="r2d2"),
    },
}


def broken_examples(parent: str) -> list[str]:
    """Write three directories that `check` must reject below the parent; their paths."""
    for name, files in BROKEN.items():
        for path, text in files.items():
            full = os.path.join(parent, name, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            if text.startswith("-> "):
                os.symlink(text.removeprefix("-> "), full)
            else:
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text)
    return [os.path.join(parent, name) for name in BROKEN]
