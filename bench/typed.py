"""Whether the type checker notices a mutant, for `bench.mutants`: it is part of `make test`, and
sees what returns nothing, or is used where it may be nothing.
"""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from bench.changes import Mutant, written

_PLACE = re.compile(r":\d+: ")


class Types:
    """The type checker at work in a copy of the tree. A module is compared with itself as it is
    without the change, written out anew too: that loses its comments, and so what they ignore.
    """

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.before: dict[str, Counter[str]] = {}

    def notice(self, one: Mutant) -> bool:
        """Return whether a mutant has an error of types that its module has not."""
        path = self.tree / one.path
        original = path.read_text(encoding="utf-8")
        try:
            if one.path not in self.before:
                path.write_text(written(ast.parse(original)), encoding="utf-8")
                self.before[one.path] = self._errors()
            path.write_text(one.source, encoding="utf-8")
            return bool(self._errors() - self.before[one.path])
        finally:
            path.write_text(original, encoding="utf-8")

    def _errors(self) -> Counter[str]:
        words = ["--no-error-summary", "--no-color-output", "--hide-error-context"]
        done = subprocess.run(
            [sys.executable, "-m", "mypy", *words],
            cwd=self.tree,
            env=os.environ | {"PYTHONPATH": str(self.tree)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stderr or done.stdout)
        return Counter(_PLACE.sub(": ", line) for line in done.stdout.splitlines())
