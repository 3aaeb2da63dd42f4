"""Figures by name, and the share of cases in which something holds. Pure; every measure uses it."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

Figures = dict[str, float]


def share(name: str, cases: Iterable[Any]) -> Figures:
    """Return the share of the cases that hold; nothing where there are none."""
    truths = [bool(case) for case in cases]
    return {name: fmean(truths)} if truths else {}
