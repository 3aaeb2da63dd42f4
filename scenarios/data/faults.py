"""What is wrong with a file that somebody named, in words. Called where files are read, and by the
shell.
"""

from __future__ import annotations

import json


def fault(error: BaseException) -> str:
    """Return what an error says of a file: why it cannot be opened, or what is no JSON in it."""
    if isinstance(error, OSError):
        why = (error.strerror or str(error)).lower()
        return f"{error.filename}: {why}" if error.filename else why
    if isinstance(error, json.JSONDecodeError):
        why = error.msg[:1].lower() + error.msg[1:]
        return f"is no JSON: {why}, in line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"is no text in UTF-8, from byte {error.start} on"
    return f"{type(error).__name__}: {error}"
