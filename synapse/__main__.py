"""`python -m synapse`."""

import sys

from synapse.cli import main

sys.exit(main())
