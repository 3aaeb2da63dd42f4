"""A page shown in the person's browser. Called by the shells and by the demo."""

from __future__ import annotations

import os
import sys

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def open_page(address: str) -> bool:
    """Open an address in a browser, and return whether one took it; not where none has a screen,
    for a browser of the terminal would take that.
    """
    import webbrowser

    if sys.platform != "darwin" and not any(os.environ.get(name) for name in SCREENS):
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
