"""`orchestrator open`: look at the workspace in a browser."""

from __future__ import annotations

import os

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.system.browser import open_page


def open_options(parser: Options) -> None:
    parser.add_argument(
        "--print", action="store_true", help="print the link alone, and open nothing"
    )


def open(call: Call) -> None:
    """Open a link that logs in the operator, once; print it too, for where no browser is."""
    from synapse.model.agents import OPERATOR
    from synapse.server.announcement import link
    from synapse.trust.persons import persons_alone

    persons_alone("log in")
    root = os.path.abspath(call.memory.store.root or call.root)
    address = link(root, OPERATOR)
    opened = not call.args.print and open_page(address)
    call.note("good once, for ten minutes")
    call.show({"link": address, "opened": opened}, address)
