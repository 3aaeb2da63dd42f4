"""The frame around every page: templates, the navigation, the cards of the overview, the files
that a browser fetches.

Further parts of the program add theirs (`Frame.add_*`). Called by the pages; holds no page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse
from starlette.routing import NoMatchFound

from synapse.model.agents import OPERATOR
from synapse.server.browsers import COOKIE
from synapse.server.callers import Caller, gate_of, known
from synapse.server.pages import texts
from synapse.server.pages.assets import Assets

HERE = Path(__file__).parent
STREAM = "/v1/events"
NOTES = {
    "answered": "Your answer was sent, and the question is done. Work that waited for it goes on.",
    "approved": "Approved: it takes effect now.",
    "asked": "Sent. It stands in the agent's next prompt.",
    "begun": "Begun: this run answers your question.",
    "archived": "Filed away. It stays readable and can be brought back.",
    "rejected": "Rejected: it is shown to nobody. Its record stays.",
    "resolved": "Resolved: it is no longer shown.",
    "restored": "Brought back.",
    "undone": "Taken back.",
    "vouched": "Vouched for: it counts as its author's.",
}


@dataclass(frozen=True)
class Link:
    """A link of the navigation: where to, its words, the key that goes there after `g`, its place
    in the list, and the heading of its group. With `tab_of`, the path of another link, it is a tab
    on that one's pages, and no link of its own; `own_tab` is what that one is called there.
    """

    path: str
    label: str
    key: str = ""
    order: int = 100
    group: str = "Memory"
    operator: bool = False
    tab_of: str = ""
    own_tab: str = ""

    def leads_to(self, path: str) -> bool:
        """Return whether a page is this link's or lies below it."""
        return path == self.path or (self.path != "/" and path.startswith(self.path + "/"))


@dataclass(frozen=True)
class Card:
    """A card of the overview: its place, and what makes it for a request (None: no card)."""

    order: int
    make: Callable[[Request], Markup | None]


@dataclass(frozen=True)
class Visitor:
    """Who looks at a page: the agent, and what its changes prove themselves with."""

    agent: str
    read_only: bool
    csrf: str
    logged_in: bool

    @property
    def operator(self) -> bool:
        return self.agent == OPERATOR


class Frame:
    """What the pages have in common. One for an application."""

    def __init__(self) -> None:
        self.assets = Assets(HERE / "static")
        self._folders = [FileSystemLoader(HERE / "templates")]
        self._links: list[Link] = []
        self._cards: list[Card] = []
        self.runs = ""  # where the page of a run is, for the operator; the name follows
        self.templates = Environment(
            loader=ChoiceLoader(self._folders),
            autoescape=True,
            finalize=texts.shown,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.filters.update(texts.FILTERS)
        self.templates.globals["asset"] = self.assets.address

    def add_templates(self, folder: Path) -> None:
        """Add a folder of templates, searched after the ones before it."""
        self._folders.append(FileSystemLoader(folder))

    def add_assets(self, folder: Path) -> None:
        """Serve the files of a folder under `/static/`."""
        self.assets.add(folder)

    def add_link(self, link: Link) -> None:
        self._links.append(link)
        self._links.sort(key=lambda link: link.order)

    def add_card(self, card: Card) -> None:
        self._cards.append(card)
        self._cards.sort(key=lambda card: card.order)

    def cards(self, request: Request) -> list[Markup]:
        """Return the cards that others have for the overview."""
        cards = (card.make(request) for card in self._cards)
        return [card for card in cards if card is not None]

    def groups(self, visitor: Visitor) -> list[tuple[str, list[Link]]]:
        """Return the navigation by its headings, as this visitor has it."""
        groups: dict[str, list[Link]] = {}
        for link in self._links:
            if not link.tab_of and (visitor.operator or not link.operator):
                groups.setdefault(link.group, []).append(link)
        return list(groups.items())

    def tabs(self, visitor: Visitor, here: str) -> list[Link]:
        """Return the tabs of the page that is here: the link that it is of, and those beside it."""
        current = next((link for link in self._links if link.leads_to(here)), None)
        if current is None:
            return []
        path = current.tab_of or current.path
        family = [
            link
            for link in self._links
            if path in (link.path, link.tab_of) and (visitor.operator or not link.operator)
        ]
        return family if len(family) > 1 else []

    def markup(self, template: str, **values: Any) -> Markup:
        """Return a template filled in: a card, or a part of a page."""
        return Markup(self.templates.get_template(template).render(values))

    def answer(
        self, request: Request, template: str, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """Return a whole page. A template extends `base.html`, or is a part for htmx."""
        visitor = visitor_of(request)
        page = self.markup(
            template,
            visitor=visitor,
            navigation=self.groups(visitor) if visitor else [],
            tabs=self.tabs(visitor, request.url.path) if visitor else [],
            here=request.url.path,
            streams=has_stream(request.app),
            runs_at=self.runs if visitor and visitor.operator else "",
            note=NOTES.get(request.query_params.get("did", ""), ""),
            **values,
        )
        return HTMLResponse(page, status)


def visitor_of(request: Request) -> Visitor | None:
    """Return who looks at the page; None where nobody is known."""
    from synapse.errors import SynapseError

    try:
        caller: Caller = known(request)
    except SynapseError:
        return None
    browser = gate_of(request).browsers.find(request.cookies.get(COOKIE, ""))
    csrf = browser.csrf if browser else ""
    return Visitor(caller.agent, caller.read_only, csrf, browser is not None)


def frame_of(connection: HTTPConnection | FastAPI) -> Frame:
    """Return the frame of an application, or of the one that a request came to."""
    app = connection if isinstance(connection, FastAPI) else connection.app
    frame = app.state.frame
    assert isinstance(frame, Frame)
    return frame


def has_stream(app: FastAPI) -> bool:
    """Return whether pages can follow events; else they look every now and then."""
    try:
        return app.url_path_for("events") == STREAM
    except NoMatchFound:
        return False


def add_links(frame: Frame, links: Iterable[Link]) -> None:
    for link in links:
        frame.add_link(link)
