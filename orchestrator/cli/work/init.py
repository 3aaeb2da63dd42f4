"""`orchestrator init`: write an example workspace with a team that runs at once."""

from __future__ import annotations

import os

from orchestrator.cli.work.example import AGENTS, SETTINGS, TEAM
from orchestrator.engines.choice import KEYS, SCRIPTED
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import clean
from synapse.errors import StoreError
from synapse.system.plain_files import open_file


def init_options(parser: Options) -> None:
    parser.add_argument(
        "directory",
        nargs="?",
        metavar="DIR",
        help="where (default: --root, or ./shared-memory if the project has none)",
    )


def init(call: Call) -> None:
    """Keep the files that are there already."""
    from synapse import core

    root = call.new_root()
    new = not os.path.exists(os.path.join(root, "synapse.yaml"))
    core.init(root).close()
    try:
        if new:
            path = os.path.join(root, "synapse.yaml")
            fd = open_file(path, os.O_WRONLY | os.O_APPEND)
            with open(fd, "a", encoding="utf-8") as file:
                file.write(SETTINGS)
        files = {f"agents/{id}.yaml": text for id, text in AGENTS.items()} | {"team.yaml": TEAM}
        new_files = [
            name for name, text in files.items() if _write_new(os.path.join(root, name), text)
        ]
    except OSError as error:
        raise StoreError(f"{root} cannot be written: {error}") from error
    with core.open(root) as memory:
        memory.store.refresh(whole=True)
    shown_root = os.path.relpath(root) if call.args.directory is None else call.args.directory
    call.show(
        lambda: {"root": root, "files": new_files},
        lambda: clean(_format_ready(shown_root, new_files)),
    )


def _write_new(path: str, text: str) -> bool:
    """Write a file that is not there yet."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _format_ready(root: str, files: list[str]) -> str:
    option = "" if root == "shared-memory" else f"--root {root} "
    lines = [
        f"{root} is ready" + (": " + ", ".join(files) if files else "; nothing in it was changed")
    ]
    return "\n".join(
        [
            *lines,
            f'Try: orchestrator {option}team --project hello --brief "Say what you know"',
            *_NO_KEY[: not any(os.environ.get(key) for _, key in KEYS)],
        ]
    )


_NO_KEY = (f"No key is set: add `--engine {SCRIPTED}` to play it, with nobody at work",)
