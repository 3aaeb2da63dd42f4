"""`UnifiedBrain` under its public name. Its code lives in `compat.brain`."""

from synapse.compat.brain import UnifiedBrain as UnifiedBrain
