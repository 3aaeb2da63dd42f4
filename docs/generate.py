"""Makes the parts of docs/ that follow from the code: settings, verbs, tools, routes, promises.

`python -m docs.generate` writes them anew; tests/test_site.py fails where a committed page differs.
A page marks such a part with `<!-- generated: NAME -->` and `<!-- end -->`; what stands around the
marks is written by hand.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from xml.sax.saxutils import escape

from docs.library import library, rows
from orchestrator.cli.verbs import GROUPS as ORCHESTRATOR_GROUPS
from orchestrator.cli.verbs import VERBS as ORCHESTRATOR_VERBS
from orchestrator.tools.functions import SPAWN, WAIT
from scenarios.__main__ import _arguments as suite_parser
from synapse import tools
from synapse.cli.frame.options import EVERYWHERE
from synapse.cli.frame.parse import options_of
from synapse.cli.frame.program import Verb
from synapse.cli.verbs import GROUPS, VERBS
from synapse.formats import keys

if TYPE_CHECKING:
    from fastapi.routing import APIRoute

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LAYERS = DOCS / "images/layers.svg"
MARKED = re.compile(r"(<!-- generated: ([\w -]+) -->\n).*?(<!-- end -->)", re.DOTALL)
PROMISE = re.compile(r"^\| [PO]\d+ \| .+ \|$", re.MULTILINE)


# -- settings --------------------------------------------------------------------------------------


FILES = {"synapse.yaml": keys.SETTINGS, "agents/{id}.yaml": keys.AGENT, "team.yaml": keys.TEAM}
FIRST = {
    "agents/{id}.yaml": "agent.engine agent.model subscriptions.read subscriptions.write",
    "synapse.yaml": (
        "limits.run.usd limits.tree.usd limits.day.usd ttl.* schedule.defrag backup.dir"
        " webhooks.*.url semantic.embedder"
    ),
}


def first_settings() -> Iterator[str]:
    """Yield the table of the keys that people set."""
    cells = [
        (f"`{file}`", f"`{key}`", FILES[file][key])
        for file, names in FIRST.items()
        for key in names.split()
    ]
    yield from rows(("file", "key", "what it says"), cells)


def settings() -> Iterator[str]:
    """Yield the tables of every key of the operator's files."""
    for title, table in FILES.items():
        yield from ("", f"## {title}", "")
        yield from rows(
            ("key", "what it says"), [(f"`{path}`", text) for path, text in table.items()]
        )


# -- the shell -------------------------------------------------------------------------------------

# What is worth knowing of a verb beside its own help.
NOTES = {
    "synapse search": "Searches by meaning too, where an embedder is set.",
    "synapse forget": "They stay in the log.",
    "synapse log": "Names who was given and woken by what, as far as the reader may see it.",
    "synapse init": "Refused where the project has a workspace, unless a directory is named.",
    "synapse register": "What is left out is the role's again; what changed is printed.",
    "synapse rebuild": "Compares every file with the log, and prints the digest of the index.",
    "synapse doctor": "`orchestrator doctor` checks coding clients.",
    "synapse defrag": "Writes `views/` and `changelog/` anew, too.",
    "synapse undo": "An undo can be undone, too.",
    "synapse import": "Restores a snapshot, too.",
    "synapse migrate": "Takes over everything or nothing.",
    "orchestrator ps": "Says why a run is not done, too.",
    "orchestrator stats": "By model, it shows no blockers.",
    "orchestrator replay": "Prints the prompt; with `--raw`, byte for byte.",
    "orchestrator up": "One daemon per workspace. It continues dead runs within two seconds.",
}


def verbs(groups: Mapping[str, str], table: Mapping[str, Verb]) -> Iterator[str]:
    """Yield what each verb of a program is for, how it is called and what it takes."""
    for group, title in groups.items():
        named = [verb for verb in table.values() if verb.group == group]
        yield from ("", f"### {title}")
        for verb in named:
            yield from one_verb(f"{verb.program} {verb.name}", options_of(verb), verb.example)


def suite() -> Iterator[str]:
    """Yield the same of the verbs of the Brain Suite."""
    (action,) = (
        each
        for each in suite_parser(every=True)._actions
        if isinstance(each, argparse._SubParsersAction)
    )
    for name, parser in action.choices.items():
        yield from one_verb(f"brain-suite {name}", parser, "")


def one_verb(title: str, parser: argparse.ArgumentParser, example: str) -> Iterator[str]:
    """Yield the section of one verb."""
    summary = parser.description or ""
    yield from ("", f"#### {title}", "", f"{summary[:1].upper()}{summary[1:].rstrip('.')}.", "")
    if title in NOTES:
        yield from (NOTES[title], "")
    if example:
        yield from ("```text", *example.splitlines(), "```", "")
    yield from rows(("argument", "meaning"), list(arguments(parser)))


def arguments(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield each argument of a verb, but those that all verbs take, with its meaning."""
    formatter = parser._get_formatter()
    for action in parser._actions:
        if {"--help", *EVERYWHERE} & {*action.option_strings}:
            continue
        choices = "|".join(map(str, action.choices or ())) or action.dest.upper()
        value = "" if action.nargs == 0 else f"{action.metavar or choices}"
        names = f"{', '.join(action.option_strings)} {value}".strip()
        yield f"`{names}`", formatter._expand_help(action) if action.help else ""


# -- tools -----------------------------------------------------------------------------------------


def agent_tools() -> Iterator[str]:
    """Yield the table of the tools that an agent may be offered, and what each takes."""
    named = [(tool.name, tool.schema) for tool in (SPAWN, WAIT, *tools.TOOLS, *tools.CLIENTS)]
    cells = []
    for name, schema in named:
        required = schema.get("required", ())
        takes = [f"`{key}`" if key in required else f"[`{key}`]" for key in schema["properties"]]
        cells.append((f"`{name}`", ", ".join(takes) or "nothing"))
    yield from rows(("tool", "arguments; those in brackets may be left out"), cells)


# -- promises --------------------------------------------------------------------------------------


def promises(design: str) -> Iterator[str]:
    """Yield the table of the promises of a design document."""
    yield from ("", "| | promise | test |", "|---|---|---|")
    yield from PROMISE.findall((ROOT / design).read_text(encoding="utf-8"))
    yield ""


# -- the drawing of the layers ---------------------------------------------------------------------

ROW, PAD, WIDE, CHAR = 26, 10, 640, 7.9
STYLE = """\
<style>
  text { font: 13px ui-monospace, monospace; fill: #1f2937; }
  .page { fill: #ffffff; } .root { fill: #eef2ff; stroke: #6366f1; } .name { font-weight: 700; }
  .module { fill: #ffffff; stroke: #94a3b8; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e7eb; } .page { fill: #111827; } .root { fill: #1e1b4b; stroke: #818cf8; }
    .module { fill: #1f2937; stroke: #64748b; }
  }
</style>"""


def layers() -> dict[str, list[list[str]]]:
    """Return the layers of each root package, from the top down, by the import contracts."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    roots: list[str] = []
    lines: dict[str, list[str]] = {}
    for contract in project["tool"]["importlinter"]["contracts"]:
        if contract["type"] != "layers":
            continue
        for container in contract.get("containers", ()):
            lines[container] = contract["layers"]
        if "containers" not in contract:
            roots = contract["layers"]
    return {root: [re.findall(r"\w+", line) for line in lines.get(root, ())] for root in roots}


def drawing() -> str:
    """Return the drawing of the layers: what stands lower knows nothing of what stands above it."""
    parts: list[str] = []
    top = PAD
    for root, lines in layers().items():
        shapes, height = panel(root, lines, top)
        parts += shapes
        top += height + PAD
    space = 'xmlns="http://www.w3.org/2000/svg"'
    head = f'<svg {space} viewBox="0 0 {WIDE} {top}" role="img">'
    title = "<title>The layers of the packages, from the top down</title>"
    page = f'<rect class="page" width="{WIDE}" height="{top}" rx="8"/>'
    return "\n".join([head, title, STYLE, page, *parts, "</svg>"]) + "\n"


def panel(root: str, lines: list[list[str]], top: int) -> tuple[list[str], int]:
    """Return the shapes of one root package that begins at this height, and its own height."""
    shapes: list[str] = []
    y = top + PAD
    for modules in lines:
        x = 170
        for module in modules:
            width = round(len(module) * CHAR) + 18
            if x + width > WIDE - 2 * PAD:
                x, y = 170, y + ROW + 2
            place = f'x="{x}" y="{y}" width="{width}" height="{ROW - 4}"'
            shapes.append(f'<rect class="module" {place} rx="4"/>')
            shapes.append(f'<text x="{x + 9}" y="{y + 15}">{escape(module)}</text>')
            x += width + 6
        y += ROW + 4
    height = max(y - top + PAD - 4, ROW + 2 * PAD)
    place = f'x="{PAD}" y="{top}" width="{WIDE - 2 * PAD}" height="{height}"'
    box = f'<rect class="root" {place} rx="8"/>'
    name = f'<text class="name" x="{2 * PAD}" y="{top + 26}">{escape(root)}</text>'
    return [box, name, *shapes], height


# -- the server ------------------------------------------------------------------------------------


def routes() -> Iterator[str]:
    """Yield the tables of what the server answers to, one for each noun."""
    from inspect import cleandoc

    from fastapi.routing import APIRoute, APIWebSocketRoute

    from synapse.server.application import NOUNS
    from synapse.server.routes import health, hooks

    tables: dict[str, list[tuple[str, ...]]] = {}
    for router in (*NOUNS, hooks.router, health.router):
        prefix = "" if router is health.router else "/v1"
        for route in router.routes:
            assert isinstance(route, APIRoute | APIWebSocketRoute)
            keyed = "Idempotency-Key" in [each.alias for each in route.dependant.header_params]
            said = " ".join(cleandoc(route.endpoint.__doc__ or "").split())
            how = sorted(route.methods) if isinstance(route, APIRoute) else ["WebSocket"]
            place = f"`{' '.join(how)} {prefix}{route.path}`"
            tag = str(router.tags[0])
            takes = ", ".join(taken(route)) if isinstance(route, APIRoute) else ""
            tables.setdefault(tag, []).append((place, said, takes, "key" if keyed else ""))
    for tag, cells in tables.items():
        yield from ("", f"## {tag.capitalize()}", "")
        yield from rows(("route", "what it does", "takes", ""), cells)


def taken(route: APIRoute) -> Iterator[str]:
    """Yield what stands in a query or a body of a route; in brackets what may be left out."""
    named = [(each.alias, each.field_info.is_required()) for each in route.dependant.query_params]
    for body in route.dependant.body_params:
        kinds = (body.field_info.annotation, *get_args(body.field_info.annotation))
        (kind,) = (each for each in kinds if hasattr(each, "model_fields"))
        for name, each in kind.model_fields.items():
            named.append((each.alias or name, each.is_required()))
    for name, is_needed in named:
        yield f"`{name}`" if is_needed else f"[`{name}`]"


# -- pages -----------------------------------------------------------------------------------------

PARTS: Mapping[str, Callable[[], Iterable[str]]] = {
    "first settings": first_settings,
    "settings": settings,
    "verbs of synapse": lambda: verbs(GROUPS, VERBS),
    "verbs of orchestrator": lambda: verbs(ORCHESTRATOR_GROUPS, ORCHESTRATOR_VERBS),
    "verbs of brain-suite": suite,
    "tools of an agent": agent_tools,
    "routes": routes,
    "library": library,
    "promises of synapse": lambda: promises("synapse/DESIGN.md"),
    "promises of orchestrator": lambda: promises("orchestrator/DESIGN.md"),
}


def renewed(text: str) -> str:
    """Return a page with its generated parts made anew."""

    def part(match: re.Match[str]) -> str:
        body = "\n".join(PARTS[match[2]]()).strip("\n")
        return f"{match[1]}\n{body}\n\n{match[3]}"

    return MARKED.sub(part, text)


def pages() -> dict[Path, str]:
    """Return every file that has generated parts, with the text that it should have."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
    return {path: renewed(text) for path, text in texts.items() if MARKED.search(text)} | {
        LAYERS: drawing()
    }


def main() -> None:
    """Write the generated parts anew, and print the files that changed."""
    for path, text in pages().items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
