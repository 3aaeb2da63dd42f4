"""Extends the site by pages that lie outside docs/, and has links work here and in the repository.

MkDocs calls the functions `on_*` while it builds. This module writes no file.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]

# Documents that stay where they are in the repository, and their places on the site.
INCLUDED = {
    "synapse/PROTOCOL.md": "reference/protocol.md",
    "synapse/SECURITY.md": "explanation/threats.md",
    "synapse/DESIGN.md": "design/synapse.md",
    "orchestrator/DESIGN.md": "design/orchestrator.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
}
_LINK = re.compile(r"\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents that lie outside docs/."""
    for source, place in INCLUDED.items():
        if place not in files.src_uris:
            text = (ROOT / source).read_text(encoding="utf-8")
            files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text with its links to files of the repository turned into links of the site."""
    places = {place: source for source, place in INCLUDED.items()}
    here = page.file.src_uri
    source = places.get(here, f"docs/{here}")

    def rewritten(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        place = INCLUDED.get(path) or path.removeprefix("docs/")
        if place not in files.src_uris:
            return link[0]
        return f"]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{anchor})"

    return _LINK.sub(rewritten, markdown)
