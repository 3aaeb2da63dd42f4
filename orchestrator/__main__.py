"""`python -m orchestrator`."""

from orchestrator.cli.process import main

main()
