"""Options and input that several verbs share: engines, tools, the text of a task. No verb."""

from __future__ import annotations

import sys

from synapse.cli.frame.options import Options, Usage


def tool_options(parser: Options) -> None:
    add = parser.add_argument
    add("--tool", action="append", metavar="MODULE:FUNCTION", help="a function as a tool")
    add(
        "--mcp",
        action="append",
        metavar="CMD",
        help="the tools of an MCP server: its command, or its address",
    )


def wait_option(parser: Options) -> None:
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait for a person where it has to, and take the answer from standard input",
    )


def engine_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--engine",
        metavar="E",
        help="where the agent's file names none (default: synapse.yaml's, or by the key)",
    )
    add("--model", metavar="M", help="where the agent's file names none")
    add("--script", metavar="MODULE:FUNCTION", help="the function that `--engine scripted` calls")
    add("--quiet", action="store_true", help="no progress")


def read_text(text: str | None) -> str:
    """Return the argument, or what stands in standard input."""
    content = sys.stdin.read() if text in (None, "-") else str(text)
    if not content.strip():
        raise Usage("there is nothing to do: give a task, or write it to standard input")
    return content.strip("\n")
