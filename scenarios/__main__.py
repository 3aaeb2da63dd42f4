"""The shell of the Brain Suite: one line read, one thing done, and its exit code.

0: all gates met. 1: a gate missed, or a report that is not what its ledger says. 2: the harness
could not do it. 77: nothing was judged, for what it needs is not there; never to be counted as
passed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

from scenarios import completion, running, verify
from scenarios.arguments import (
    conversations_option,
    jobs_option,
    model_options,
    pair,
    running_options,
    two,
)
from scenarios.clients import shell as clients
from scenarios.clients.places import Broken as BrokenSession
from scenarios.data import ledger, parameters, texts
from scenarios.data.cassette import BrokenCassette, Cassette
from scenarios.data.faults import fault
from scenarios.data.files import BrokenScenario, find, library, load
from scenarios.data.recorded_team import parameters_of, read_team
from scenarios.measure import retrieval
from scenarios.play import calibrate, harness, rerun
from scenarios.play.agents.live import CLIENTS, Broken, Live, Offer, missing, missing_program
from scenarios.play.lint import example, problems
from scenarios.report import compare_reports, markdown, recorded, report
from scenarios.report.recorded import RETRIEVAL, BrokenData
from scenarios.report.report import Report
from scenarios.running import BROKEN, GOOD, MISSED, SKIPPED, Wanted
from synapse.cli.frame.options import Usage
from synapse.system.quoting import one_line


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others, with 64: 2 is the harness's own."""

    def error(self, message: str) -> NoReturn:
        raise Usage(f"{message}; `{self.prog} --help` shows what it takes")


# What a person needs in the first week; `--help --all` shows the others too.
FIRST = "list run report verify compare new lint".split()


def main(argv: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    every = "--all" in arguments and "--help" in arguments
    try:
        args = _arguments(every).parse_args(arguments)
        code: int = args.act(args)
    except Usage as error:
        _complain(error, "--json" in arguments)
        return Usage.exit_code
    except (
        BrokenScenario,
        BrokenCassette,
        Broken,
        BrokenSession,
        ledger.BrokenLedger,
        report.BrokenReport,
        BrokenData,
        parameters.BrokenParameters,
        OSError,
    ) as error:
        _complain(error, "--json" in arguments)
        return BROKEN
    except KeyboardInterrupt:
        return 130
    # a gate that was missed and a harness that fell over are told apart by the exit code
    except Exception:
        traceback.print_exc()
        return BROKEN
    return code


def _complain(error: Exception, as_json: bool) -> None:
    """Print an error, as JSON where that was asked for."""
    message = fault(error) if isinstance(error, OSError) else str(error)
    failure = {"error": {"type": type(error).__name__, "message": message}}
    print(
        json.dumps(failure, ensure_ascii=False) if as_json else f"brain-suite: {message}",
        file=sys.stderr,
    )


def _completion(args: argparse.Namespace) -> int:
    print(completion.script(args.shell, args.verbs, list(library())), end="")
    return GOOD


def _list(args: argparse.Namespace) -> int:
    for id, text in library().items():
        print(f"{id:<31}{one_line(load(text).title)}")
    return GOOD


def _new(args: argparse.Namespace) -> int:
    path = args.file or f"{args.id}.yaml"
    with open(path, "x", encoding="utf-8") as file:
        file.write(example(args.id))
    print(f"{path}; check it with `brain-suite lint {path}`, play it with `brain-suite run {path}`")
    return GOOD


def _lint(args: argparse.Namespace) -> int:
    problems_count = 0
    for name in args.scenario or library():
        try:
            wrong = list(problems(name))
        except BrokenScenario as error:
            wrong = [str(error)]
        problems_count += len(wrong)
        for problem in wrong:
            print(f"{name}: {problem}")
    return MISSED if problems_count else GOOD


def _as_recorded(names: Sequence[str], path: str | None) -> dict[str, Any]:
    """Return the parameters of the scenario that the team of an audit has."""
    if path is None:
        return {}
    if len(names) != 1:
        raise BrokenScenario("--from: name one scenario")
    return parameters_of(read_team(path), find(names[0]))


def _run(args: argparse.Namespace) -> int:
    names = list(library()) if "all" in args.scenario else list(dict.fromkeys(args.scenario))
    arms = args.arms.split(",") if args.arms else None
    cell = _as_recorded(names, args.audit) | dict(pair(text) for text in args.set)
    grid, full = args.grid, args.full
    measured = parameters.load(args.params) if args.params else None
    request = Wanted(
        names, arms, args.runs, args.seed, cell, grid, full, args.retrieval, args.prompts, measured
    )
    if args.live and (why := _not_live(args)):
        print(f"brain-suite: skipped: {why}", file=sys.stderr)
        return SKIPPED
    with open(os.devnull, "w") as nowhere:
        stream = nowhere if args.quiet else sys.stderr
        report_made = (
            _live(request, args, stream)
            if args.live
            else running.play(request, args.out, args.jobs, stream)
        )
    for line in running.shown(report_made, args.out):
        print(line)
    return running.code_of(report_made.table)


def _not_live(args: argparse.Namespace) -> str | None:
    """Return why no model can be asked, or None; a cassette alone needs no model."""
    return None if args.cassette_mode == "replay" else missing(args.live, os.environ)


def _calibrate(args: argparse.Namespace) -> int:
    if args.command and args.live not in CLIENTS:
        raise Broken(f"--command is for a client: --live {', '.join(CLIENTS)}")
    client = args.live in CLIENTS and args.cassette_mode != "replay"
    if why := missing_program(args.live, args.command, os.environ) if client else _not_live(args):
        print(f"brain-suite: skipped: {why}", file=sys.stderr)
        return SKIPPED
    with _asked(args, args.command) as live:
        calibrate.run(args, live)
    return GOOD


def _clients(args: argparse.Namespace) -> int:
    return clients.run(args, harness.Counts())


def _live(wanted: Wanted, args: argparse.Namespace, out: TextIO) -> Report:
    with _asked(args) as live:
        return running.play_live(wanted, live, args.out, out)


@contextmanager
def _asked(args: argparse.Namespace, command: str | None = None) -> Iterator[Live]:
    """Yield the model that the options name."""
    cassette = Cassette(args.cassette, args.cassette_mode, os.environ)
    price = two(args.price) if args.price else None
    offer = Offer(args.live, args.model, args.max_usd, price, args.max_tokens, command)
    live = Live(offer, cassette, harness.Counts())
    try:
        yield live
    finally:
        live.end()


def _report(args: argparse.Namespace) -> int:
    if args.table:
        print("\n".join(markdown.rivals(report.read(args.report))).rstrip())
        return GOOD
    _, report_made = verify.again(args.report, args.jobs)
    folder = os.path.dirname(report.ledger_beside(args.report)) or "."
    running.leave(report_made, folder)
    for line in running.shown(report_made, folder):
        print(line)
    return running.code_of(report_made.table)


def _verify(args: argparse.Namespace) -> int:
    differences = verify.differences(args.report, args.jobs) + verify.of_recorded(
        args.report, args.retrieval
    )
    ledger_path = report.ledger_beside(args.report)
    recount = texts.recount(ledger_path)
    differences += recount.differences if recount else ()
    replayed = rerun.rerun(ledger_path, args.scenario, args.jobs) if args.replay else None
    differences += replayed.differences if replayed else ()
    print(*differences, sep="\n", end="\n" * bool(differences))
    for line in _not_checked(recount, replayed):
        print(f"not checked: {line}")
    if differences:
        print(
            f"brain-suite: {len(differences)} differences: the report is not what its data say",
            file=sys.stderr,
        )
        return MISSED
    table = report.read(args.report)
    figures = sum(map(len, table["metrics"].values()))
    print(
        f"ok: {figures} figures of {table['run']['runs']} runs follow from the ledger"
        f" {table['run']['ledger'][:16]}"
    )
    if recount and not recount.missing:
        print(f"ok: {recount.segments} counts of tokens follow from {recount.texts} texts")
    if replayed and replayed.runs:
        print(f"ok: {replayed.runs} runs were played again, and are the same to the byte")
    recorded_parts = table.get("recorded", {})
    if away := recorded.missing(recorded_parts, args.retrieval):
        print(f"not checked: retrieval: nothing lies at {away}; say where it is: --retrieval FILE")
    elif RETRIEVAL in recorded_parts:
        print(
            f"ok: retrieval follows from the data"
            f" {recorded_parts[RETRIEVAL]['data']['sha256'][:16]}"
        )
    return GOOD


def _not_checked(recount: texts.Recount | None, replayed: rerun.Rerun | None) -> Iterator[str]:
    if recount and recount.missing:
        yield f"tokens, by the texts of their prompts: {recount.missing}"
    for line in replayed.skipped if replayed else ():
        yield f"the same once more: {line}"


def _compare(args: argparse.Namespace) -> int:
    changes = list(
        compare_reports.changes(report.read(args.before), report.read(args.after), args.tolerance)
    )
    for change in changes:
        print(change.line)
    worse = sum(change.worse for change in changes)
    print(f"{worse} worse, {len(changes) - worse} better")
    return MISSED if worse else GOOD


def _arguments(every: bool) -> argparse.ArgumentParser:
    parser = Parser(prog="brain-suite", description="What coordination costs and saves, measured.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    if not every:
        parser.epilog = "`brain-suite help --all` lists all verbs."

    def verb(
        name: str, act: Callable[[argparse.Namespace], int], help: str
    ) -> argparse.ArgumentParser:
        if every or name in FIRST:
            parser_of_verb = verbs.add_parser(name, description=help, help=help)
        else:
            parser_of_verb = verbs.add_parser(name, description=help)
        parser_of_verb.set_defaults(act=act)
        return parser_of_verb

    verb("list", _list, "the scenarios there are")
    new = verb("new", _new, "write a scenario of your own, explained, to begin with")
    new.add_argument("id", metavar="ID")
    new.add_argument(
        "file", nargs="?", metavar="FILE", help="where to; else ID.yaml here. What is there stays"
    )
    lint = verb("lint", _lint, "what is wrong with scenarios: names, cycles, values that leak")
    lint.add_argument(
        "scenario", nargs="*", metavar="ID|FILE", help="these; else all that come with this"
    )
    running_options(verb("run", _run, "play a scenario and report on it"))
    jobs = verb("report", _report, "write a report again, from its ledger")
    jobs.add_argument("report", metavar="REPORT", help="report.json, or the folder that it lies in")
    text = "print the product beside the best rival of each scenario, as Markdown; write nothing"
    jobs.add_argument("--table", action="store_true", help=text)
    jobs_option(jobs)
    jobs = verb("verify", _verify, "make every number of a report again from the ledger beside it")
    jobs.add_argument("report", metavar="REPORT", help="report.json, or the folder that it lies in")
    text = "play every run again as well, and compare: the same seed has to give the same ledger"
    jobs.add_argument("--replay", action="store_true", help=text)
    text = "with --replay: a scenario that is not in the library; may be given several times"
    jobs.add_argument("--scenario", action="append", default=[], metavar="FILE", help=text)
    conversations_option(jobs, "where the conversations lie now; else where the report says")
    jobs_option(jobs)
    both = verb(
        "compare",
        _compare,
        "what became worse from one report to another; exit code 1 where anything did",
    )
    both.add_argument("before", metavar="A")
    both.add_argument("after", metavar="B")
    both.add_argument(
        "--tolerance",
        type=float,
        default=compare_reports.TOLERANCE,
        metavar="X",
        help="default: %(default)s",
    )
    text = (
        "measure on a real model how agents read, search, claim and note, for `run --params` (L2)"
    )
    text += "; on a coding client, what its last message shows: p_read and heeds"
    measure = verb("calibrate", _calibrate, text)
    calibrate.options(measure)
    model_options(measure, required=True)
    record = verb(
        "record", _run, "play a scenario with a real model, and keep every call on a cassette (L2)"
    )
    running_options(record)
    record.set_defaults(live="anthropic", cassette="cassette.jsonl")
    text = "how much of the evidence for questions memory finds in recorded conversations (L1)"
    retrieval.options(verb("retrieval", retrieval.run, text))
    text = (
        "what a real coding client reads and does twice, with the plugin and without"
        " (needs the client)"
    )
    clients.options(verb("clients", _clients, text))
    shells = verb("completion", _completion, "print the completion script for bash or zsh")
    shells.add_argument("shell", choices=completion.SHELLS)
    shells.set_defaults(verbs=verbs.choices)
    return parser


if __name__ == "__main__":
    sys.exit(main())
