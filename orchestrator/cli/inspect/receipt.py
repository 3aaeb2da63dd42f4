"""`orchestrator receipt | replay`: show what went into a run's prompt, and the prompt."""

from __future__ import annotations

import sys

from orchestrator.cli.frame.describe import source_of
from orchestrator.reports.receipts import prompt_of, receipt_of
from orchestrator.reports.rows import find_run
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import clean


def receipt_options(parser: Options) -> None:
    parser.add_argument("run", metavar="RUN", help="which run")


def receipt(call: Call) -> None:
    from orchestrator.prompts.receipt import explain

    source = source_of(call)
    receipt = receipt_of(source, find_run(source, call.args.run))
    call.show(lambda: {"receipt": receipt}, lambda: explain(receipt).rstrip("\n"))


def replay_options(parser: Options) -> None:
    parser.add_argument("run", metavar="RUN", help="which run")
    parser.add_argument(
        "--raw", action="store_true", help="byte for byte, whatever stands in the task"
    )


def replay(call: Call) -> None:
    """Print the prompt, byte for byte with --raw; else what a terminal or a model's server would
    obey is spelled out, which only its task can hold."""
    source = source_of(call)
    run = find_run(source, call.args.run)
    prompt = prompt_of(source, call.memory, run)
    if call.json:
        return call.show({"run": run["run"], **prompt._asdict(), "sha256": prompt.sha256}, "")
    text = prompt.text if call.args.raw else clean(prompt.text)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()
    return None
