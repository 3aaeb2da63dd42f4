"""`python -m synapse`."""

from synapse.cli.process import main

main()
