"""The upkeep thread: it looks for dropped files now and then, and folds the index's write-ahead log
back into its file. It decides nothing, and knows no runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from synapse.errors import SynapseError
from synapse.store import Store

EVERY = 0.1
FOLDED = 30  # batches that the index took in


class Upkeep:
    """The thread, at work as long as this is open; on a disk alone, and while somebody is
    `busy`.
    """

    def __init__(self, store: Store, busy: Callable[[], bool]) -> None:
        self._store = store
        self._busy = busy
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_up, name="synapse-upkeep", daemon=True)
        if store.root is not None:
            self._thread.start()

    def close(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def _keep_up(self) -> None:
        while not self._over.wait(EVERY):
            if self._busy():
                try:
                    self._store.refresh()
                    self._store.index.fold(FOLDED)
                except SynapseError:
                    pass  # whoever looks next, on the way of something, is told
        self._store.index.let_go()
