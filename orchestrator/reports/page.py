"""The frame of a report as one page that holds everything it needs: no script, no network, light
and dark. Called by the page of an audit and by the suite's; `page.css` says how it looks.
"""

from __future__ import annotations

from html import escape
from importlib import resources


def page(title: str, body: str) -> str:
    """Return the page with this title; the body is HTML."""
    style = (resources.files("orchestrator.reports") / "page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )
