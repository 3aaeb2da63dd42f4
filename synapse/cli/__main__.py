"""`python -m synapse.cli`."""

import sys

from synapse.cli import main

sys.exit(main())
