"""The forms of secrets that gitleaks publishes, as `synapse/privacy/known_forms.json` has them.

    python -m bench.known_forms gitleaks.toml VERSION LICENSE

Its rules are of three sorts. Those that say a token's own form are taken as they are. Those that
look for a value which a service's name is given lose the part before that name, since what is
masked is the value alone. Names of clients, files, and rules that `secrets` has a wider form for
are left out.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "synapse" / "privacy" / "known_forms.json"
# What stands before the name of a service, and what follows a value.
BEFORE = (r"[\w.-]{0,50}?", r"(?i:[\w.-]{0,50}?")
AFTER = r"""(?:[\x60'"\s;]|\\[nr]|$)"""
END = r"(?![A-Za-z0-9])"
# What a rule takes for one that is none (any commit), and groups that hold no secret.
MENDED = (
    ("|[a-fA-F0-9]{40})", ")"),
    ("(login|token)", "(?:login|token)"),
    ("([a-z0-9]{4}-)", "(?:[a-z0-9]{4}-)"),
)
LEFT_OUT = re.compile(
    r".*-(?:client|access|api)-id|.*pub(?:lic)?(?:-api)?-key|generic-.*|private-key|curl-.*|jwt"
    r"|aws-access-token|.*bedrock.*short-lived|twilio-.*|telegram-.*|azure-ad-.*|.*-key-id"
    r"|openai-.*|anthropic-.*|huggingface-access.*|perplexity-.*|github-.*|gcp-.*|notion-.*"
    r"|sentry-(?:org|user)-.*|doppler-.*|flyio-.*|stripe-.*"
)


def rules(config: dict[str, Any]) -> list[list[Any]]:
    """Return the rules as rows: the kind, its words, its pattern, and the least entropy of what a
    name is given, or 0.
    """
    rows: list[list[Any]] = []
    for rule in config["rules"]:
        if LEFT_OUT.fullmatch(rule["id"]) or "path" in rule:
            continue
        pattern = rule["regex"]
        given = "(?:=|>|" in pattern
        for text in BEFORE[::-1] if given else ():
            pattern = pattern.replace(text, "(?i:" if text.startswith("(?i:") else "")
        pattern = portable(pattern)
        for text, instead in MENDED:
            pattern = pattern.replace(text, instead)
        kind = rule["id"].replace("-", " ").replace("personnal", "personal")
        entropy = max(rule.get("entropy", 0), 2) if given else 0
        rows.append([kind, rule["keywords"], pattern, entropy])
    return rows


def portable(pattern: str) -> str:
    """Return a pattern of RE2 as Python has it."""
    pattern = pattern.replace("[[:alnum:]]", "[A-Za-z0-9]").replace(AFTER, END)
    pattern = pattern.replace(r"\z", r"\Z")
    head, flag, tail = pattern.partition("(?i)")
    if flag and head:  # it holds to the end of the group that it stands in
        depth, end = 0, len(tail)
        for at, char in enumerate(tail):
            escaped = at and tail[at - 1] == "\\"
            depth += 0 if escaped else (char == "(") - (char == ")")
            if depth < 0:
                end = at
                break
        pattern = f"{head}(?i:{tail[:end]}){tail[end:]}"
    if "(?i)" in pattern[1:]:  # within a part that has it already
        pattern = pattern[0] + pattern[1:].replace("(?i)", "")
    pattern = re.sub(r"\(\?P<\w+>", "(?:", f"(?a){pattern}")
    re.compile(pattern)
    return pattern


def main(path: str, version: str, licence: str) -> None:
    """Write the file."""
    config = tomllib.loads(Path(path).read_text())
    rows = rules(config)
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = json.dumps({"source": f"gitleaks {version}", "licence": Path(licence).read_text()})
    TARGET.write_text(f'{head[:-1]},\n"rules": [\n{lines}\n]}}\n')
    print(f"{len(rows)} of {len(config['rules'])} rules in {TARGET.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
