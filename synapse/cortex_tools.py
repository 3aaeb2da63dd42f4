"""The tools of the Cortex extension under their public name. Their code lives in `compat`."""

from synapse.compat.cortex_tools import call as call
from synapse.compat.cortex_tools import offered as offered
