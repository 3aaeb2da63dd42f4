"""The options of brain-suite's verbs that several of them share. Called by the shell."""

from __future__ import annotations

import argparse
import os
from typing import Any

from scenarios.data.cassette import MODES as CASSETTES
from scenarios.play.agents.live import CLIENTS, MODELS, Broken


def two(text: str) -> tuple[float, float]:
    try:
        one, second = map(float, text.split(","))
    except ValueError as error:
        raise Broken(f"--price {text}: is not IN,OUT, in dollars per million tokens") from error
    return one, second


def pair(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if value in ("true", "false"):
        return name, value == "true"
    try:
        return name, float(value) if "." in value else int(value)
    except ValueError:
        return name, value


def _count(text: str) -> int:
    """Return a number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 1")
    return int(text)


def running_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("scenario", nargs="+", metavar="ID|FILE|all", help="several make one report")
    verb.add_argument("--arms", metavar="A,B", help="these arms; else those of the scenario")
    verb.add_argument(
        "--runs", type=_count, metavar="N", help="so many seeds; else as many as the scenario says"
    )
    verb.add_argument("--seed", type=int, metavar="N", help="the first seed")
    verb.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another value of a parameter",
    )
    verb.add_argument(
        "--no-grid", dest="grid", action="store_false", help="the scenario's own parameters alone"
    )
    verb.add_argument(
        "--full",
        action="store_true",
        help="as many runs in the grid; more where a scenario has more",
    )
    verb.add_argument(
        "--params", metavar="FILE", help="parameters of agents as `calibrate` measured them (L0)"
    )
    verb.add_argument(
        "--from",
        dest="audit",
        metavar="FILE",
        help="overlap and price as a team was recorded: `orchestrator audit --json > FILE` (L0)",
    )
    model_options(verb)
    conversations_option(
        verb, "conversations to be measured as well, as `retrieval` reads them, for the report (L1)"
    )
    text = "keep the texts of all prompts beside the ledger, so that tokens can be counted again"
    verb.add_argument("--prompts", action="store_true", help=text)
    verb.add_argument("--quiet", action="store_true", help="do not tell how far it has got")
    verb.add_argument(
        "--out", default="brain-suite", metavar="DIR", help="where to; default: %(default)s"
    )
    jobs_option(verb)


def model_options(verb: argparse.ArgumentParser, required: bool = False) -> None:
    """Add the options of whatever asks a real model."""
    text = "the real model that is asked (L2): anthropic, openai, openai-chat"
    text += f"; for `calibrate` a client as well: {', '.join(CLIENTS)}" * required
    verb.add_argument("--live", metavar="ENGINE", help=text, required=required)
    usual = ", ".join(f"{model} ({engine})" for engine, model in MODELS.items())
    verb.add_argument("--model", metavar="NAME", help=f"which; else {usual}")
    text = (
        "never spend more"
        + "; a client: begin no session that would, by the dearest so far" * required
    )
    verb.add_argument(
        "--max-usd", type=float, default=1.0, metavar="X", help=f"{text}; default: %(default)s"
    )
    text = "never take more tokens, sent and received"
    verb.add_argument(
        "--max-tokens", type=int, metavar="N", help=f"{text}; else the dollars alone limit it"
    )
    verb.add_argument(
        "--price",
        metavar="IN,OUT",
        help="dollars per million tokens, of a model without a list price",
    )
    verb.add_argument(
        "--cassette", metavar="FILE", help="keep every call there, and play what is there"
    )
    text = (
        "replay: ask nobody; new: ask for what is not there; once: there must be none"
        " yet; all: ask anew"
    )
    verb.add_argument("--cassette-mode", choices=CASSETTES, default="new", help=text)


def conversations_option(verb: argparse.ArgumentParser, about: str) -> None:
    verb.add_argument("--retrieval", metavar="FILE", help=about)


def jobs_option(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--jobs", type=_count, default=os.cpu_count() or 1, metavar="N", help="processes"
    )
