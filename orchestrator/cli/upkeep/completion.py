"""`orchestrator completion`: print the completion script, with verbs and the names of runs."""

from __future__ import annotations

from orchestrator.cli.verbs import PROGRAM
from synapse.cli.frame.call import Call
from synapse.cli.frame.completion import SHELLS
from synapse.cli.frame.completion import script as script_of
from synapse.cli.frame.options import Options

_PLACES = """\
        tree|tail|receipt|replay|stop)
            [[ $cur == -* ]] || words="$words $(cd "$(_orchestrator_root)/runs" 2>/dev/null && printf '%s\\n' *)" ;;"""  # noqa: E501


def completion_options(parser: Options) -> None:
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def completion(call: Call) -> None:
    text = script(call.args.shell)
    call.show(lambda: {"shell": call.args.shell, "script": text}, lambda: text.rstrip("\n"))


def script(shell: str) -> str:
    return script_of(shell, PROGRAM, _PLACES, {})
