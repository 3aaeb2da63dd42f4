"""The daemon that a client's hook starts, for the hooks that follow: `PYTHON -I serve.py ROOT`.

It has the lock of the workspace's daemon from who started it. It ends by itself, and says nothing:
what goes wrong is a line in the hooks' log.
"""

from __future__ import annotations

import os
import sys
import time

PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main(root: str) -> None:
    """Serve the sessions of a workspace until nobody needs that any more."""
    began = time.monotonic()
    if PACKAGES not in sys.path:
        sys.path.insert(0, PACKAGES)
    from orchestrator.plugin import hook

    try:
        import asyncio

        import synapse
        from orchestrator.plugin.daemon import SessionDaemon

        with synapse.open(root) as memory:
            if memory.store.readonly:
                return  # what is read alone may be written later, or count for something
            asyncio.run(SessionDaemon(memory, lock=hook.LOCK).run())
    except BaseException as error:
        if os.path.isdir(os.path.join(root, "journal")):  # else its workspace went
            hook.log_error(root, "daemon", error, began)


if __name__ == "__main__":
    main(sys.argv[1])
