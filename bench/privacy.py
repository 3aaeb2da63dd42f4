"""How much is found of what is made up, and how much of ordinary engineering text is taken for it.

    python -m bench.privacy [FOLDER ...]

Ordinary text is this project's own, that of the installed packages, and of the folders given.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from synapse.privacy import personal, secrets
from tests.privacy import made

ROOT = Path(__file__).parents[1]
SUFFIXES = {".md", ".rst", ".txt", ".py", ".sql", ".j2"}
MADE_UP = ("privacy", "test_secrets", "test_personal")


def parts(paths: Iterable[Path]) -> Iterable[str]:
    """Yield the paragraphs of these files."""
    for path in paths:
        if path.suffix in SUFFIXES and not any(name in str(path) for name in MADE_UP):
            text = path.read_text(encoding="utf-8", errors="replace")
            yield from (part for part in re.split(r"\n\s*\n", text) if len(part) > 20)


def share(name: str, texts: Iterable[str], test: Callable[[str], bool]) -> None:
    """Print how many of these texts pass a test."""
    results = Counter(map(test, texts))
    total = sum(results.values())
    print(f"{name:48}{results[True]:>8} of {total:>7}  {100 * results[True] / total:8.3f} %")


def main(folders: list[str]) -> None:
    """Print the figures."""
    own = [*ROOT.glob("*.md")]
    for folder in ("docs", "synapse", "orchestrator", "scenarios", "tests"):
        own += sorted((ROOT / folder).rglob("*"))
    packages = sorted(Path(sysconfig.get_path("purelib")).rglob("*"))
    packages = [path for path in packages if path.suffix in SUFFIXES][::15]
    share("secrets found", (text for _, text, _ in made.secrets(2_200)), is_masked)
    share("personal data found", (text for _, text, _ in made.personal(2_800)), is_personal)
    others = [path for folder in folders for path in sorted(Path(folder).rglob("*"))]
    for name, paths in (("own text", own), ("packages", packages), ("given", others)):
        texts = list(parts(path for path in paths if path.is_file()))
        if texts:
            share(f"taken for personal data: {name}", texts, is_personal)
            share(f"taken for secrets: {name}", texts, is_masked)


def is_personal(text: str) -> bool:
    return bool(personal.kinds_in(text))


def is_masked(text: str) -> bool:
    return secrets.mask(text) != text


if __name__ == "__main__":
    main(sys.argv[1:])
