"""What resolves beside the agent frameworks: the core and each extra with an exact version of each.

`python -m bench.matrix` asks uv, which looks at the package index, and ends with 1 where something
else resolves than stands here. A version is exact, so that none falls back to an older one unseen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FRAMEWORKS = {
    "langgraph": "1.2.24",
    "langchain": "1.5.2",
    "deepagents": "0.7.32",
    "crewai": "1.15.30",
    "pydantic-ai-slim": "2.66.0",
    "openai-agents": "0.24.0",
    "google-adk": "2.13.0",
    "claude-agent-sdk": "0.2.189",
    "autogen-agentchat": "0.7.5",
    "agent-framework": "1.23.0",
}
PARTS = ("", "client", "crypto", "postgres", "server", "team", "mcp")
# CrewAI asks for openai < 3 and mcp < 2, agent-framework with all its parts for anthropic < 2.
APART = {("crewai", "team"), ("crewai", "mcp"), ("agent-framework", "team")}
PYTHON = "3.11"


def requirements(extra: str) -> list[str]:
    """Return what the core and an extra ask for."""
    path = Path(__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    more = project["optional-dependencies"][extra] if extra else []
    return [*project["dependencies"], *more]


def resolves(framework: str, extra: str) -> str:
    """Return why these do not resolve together; nothing where they do."""
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        raise SystemExit("uv is not there: python3 -m pip install uv")
    wanted = [*requirements(extra), f"{framework}=={FRAMEWORKS[framework]}"]
    done = subprocess.run(
        [uv, "pip", "compile", "-", "--python-version", PYTHON, "--quiet"],
        input="\n".join(wanted),
        capture_output=True,
        text=True,
        check=False,
    )
    return " ".join(done.stderr.split()) if done.returncode else ""


def main() -> int:
    """Print the table, and return 1 where it is another one than is expected."""
    pairs = [(framework, extra) for framework in FRAMEWORKS for extra in PARTS]
    with ThreadPoolExecutor(2) as pool:
        reasons = dict(zip(pairs, pool.map(lambda pair: resolves(*pair), pairs), strict=True))
    print(f"{'':26}" + "".join(f"{extra or 'core':>10}" for extra in PARTS))
    for framework, version in FRAMEWORKS.items():
        cells = ["no" if reasons[framework, extra] else "yes" for extra in PARTS]
        print(f"{framework + ' ' + version:26}" + "".join(f"{cell:>10}" for cell in cells))
    wrong = [pair for pair in pairs if bool(reasons[pair]) != (pair in APART)]
    for pair in wrong:
        print(" ".join(pair), "is not as expected:", reasons[pair] or "it resolves")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
