"""Play histories: `python -m tests.histories --seed 7 --verbose`, or `--seeds 0:5000`."""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import tempfile

from tests.histories.elsewhere import Elsewhere
from tests.histories.play import made_template, play, smallest

ACTS = 30
FLAGS = ("index", "lines", "clock")


def parsed(words):
    parser = argparse.ArgumentParser(prog="python -m tests.histories")
    parser.add_argument("--seed", type=int, help="play this one, and print its acts")
    parser.add_argument("--seeds", help="play these: FIRST:END")
    parser.add_argument("--acts", type=int, default=ACTS, help="so many steps each")
    parser.add_argument("--verbose", action="store_true", help="print every step")
    parser.add_argument("--smallest", action="store_true", help="leave steps out")
    parser.add_argument("--skip", default="", help="steps to leave out: 3,7")
    parser.add_argument("--with", dest="flags", default="", help=",".join(FLAGS))
    return parser.parse_args(words)


def main(words=None):
    given = parsed(words)
    first, _, end = (given.seeds or f"{given.seed}:{given.seed + 1}").partition(":")
    flags = [flag for flag in given.flags.split(",") if flag]
    skip = {int(place) for place in given.skip.split(",") if place}
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    elsewhere, failed = Elsewhere(), []
    gc.freeze()
    gc.set_threshold(50_000)  # a history leaves little behind
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        template = made_template(folder)
        for seed in range(int(first), int(end)):
            how = {"flags": flags, "parent": folder}
            result = play(seed, given.acts, template, elsewhere, skip=skip, **how)
            if result.problems and given.smallest:
                skip = smallest(seed, given.acts, template, elsewhere, **how)
                result = play(seed, given.acts, template, elsewhere, skip=skip, **how)
                print(f"--skip {','.join(map(str, sorted(skip)))}")
            report(result, given.verbose or given.smallest or given.seed is not None)
            failed += [seed] if result.problems else []
            sys.stdout.flush()
    elsewhere.close()
    print(f"{int(end) - int(first)} histories, {len(failed)} went wrong: {failed}")
    print(f"{spent():.1f} s of CPU")
    return 1 if failed else 0


def report(result, verbose):
    for place, said in result.steps if verbose else ():
        for text in said:
            print(f"{place:4} {text}")
    for problem in result.problems:
        print(f"seed {result.seed}: {problem}")


def spent():
    """Return the CPU seconds of this process and of those that it started."""
    uses = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


if __name__ == "__main__":
    sys.exit(main())
