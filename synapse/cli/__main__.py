"""`python -m synapse.cli`."""

from synapse.cli.process import main

main()
