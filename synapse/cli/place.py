"""`synapse where`."""

from __future__ import annotations

import os

from synapse.cli.call import Call
from synapse.cli.options import Options
from synapse.cli.show import clean, fields
from synapse.errors import NotFound
from synapse.system import discovery


def where_options(parser: Options) -> None:
    """None of its own."""


def where(call: Call) -> None:
    """Print the root on a line of its own, for scripts, and below it the rule that gave it."""
    location = call.location
    root = os.path.abspath(location.root)
    if not discovery.is_workspace(root):
        what = f"{root}, {location.reason}, is no workspace"
        raise NotFound(f"{what}; {discovery.advice(root)}", id=root)
    shown = {**fields(location), "root": root, "reason": location.reason}
    call.show(shown, clean(f"{root}\n  {location.reason}"))
