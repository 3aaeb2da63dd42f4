"""Whose file it is: whether a file of the operator's may be believed, by its owner and its mode.

Pure, on what `os.stat` said. Readers of `synapse.yaml`, `agents/*.yaml`, `team.yaml` and templates
call it. What agents and strangers drop as entries has its own rule: `synapse/trust/drops.py`.
"""

from __future__ import annotations

import os
import stat


def unfit(status: os.stat_result, owner: int) -> str:
    """Return why a file is not taken for the operator's; empty where it is.

    Its owner has to be the `owner` of the workspace, oneself or root, and not everybody may write
    it. A group may: its members are whom the owner let in, and on many systems each user's files
    are writable by a group of that user alone.
    """
    if status.st_uid not in (owner, os.geteuid(), 0):
        return (
            f"it belongs to user {status.st_uid}, who is neither the owner of its folder nor you;"
            " use chown, or delete it"
        )
    return "everybody may write it; use chmod o-w" if status.st_mode & stat.S_IWOTH else ""
