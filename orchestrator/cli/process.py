"""The console scripts: a process that runs one command line, and ends.

`brain-suite` starts here and not in `scenarios`: a wheel carries that folder as
`orchestrator/_suite/scenarios`, so that no module of such a common name lies at the top of an
environment.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import NoReturn

from orchestrator import cli
from synapse.cli.process import end

PACKED = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_suite")


def main() -> NoReturn:
    end(cli.main)


def suite() -> int:
    """Run one command line of the Brain Suite, by `scenarios` of the wheel or of the checkout.

    The variable is for the processes that the suite starts.
    """
    if os.path.isdir(PACKED):
        sys.path.insert(0, PACKED)
        paths = (PACKED, os.environ.get("PYTHONPATH"))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    code: int = import_module("scenarios.__main__").main()
    return code
