"""The passphrase of the person's private keys: of the file that `SYNAPSE_PASSPHRASE_FILE` names, of
the system's keychain where the package `keyring` is installed, or of the terminal.
"""

from __future__ import annotations

import os
import stat
import sys
from getpass import getpass
from importlib import import_module

from synapse.errors import NoKey

FILE = "SYNAPSE_PASSPHRASE_FILE"
SERVICE, NAME = "synapse", "passphrase"  # of the keychain's entry
_LONGEST = 4096


def passphrase() -> str:
    """Return the passphrase; NoKey says where it may come from, where it comes from nowhere."""
    if path := os.environ.get(FILE):
        return _of_file(path)
    if text := _of_keychain():
        return text
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NoKey(
            f"the private keys are behind a passphrase, and nobody is here to be asked: {FILE}"
            f" names a file with it, or `keyring set {SERVICE} {NAME}` puts it into the keychain"
        )
    return getpass("passphrase of the private keys: ")


def new_passphrase() -> str:
    """Return a passphrase that is to be set, asked for twice at a terminal."""
    text = passphrase()
    typed = FILE not in os.environ and not _of_keychain()
    if typed and getpass("the same again: ") != text:
        raise NoKey("the two are not the same: nothing was changed")
    if not text:
        raise NoKey("the passphrase is empty: nothing was changed")
    return text


def _of_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(status.st_mode) & 0o077:
                raise NoKey(f"{path} is not believed: it has to be yours, and yours alone (0600)")
            return file.read(_LONGEST).decode().splitlines()[0]
    except (OSError, UnicodeDecodeError, IndexError) as error:
        raise NoKey(f"{path}, which {FILE} names, holds no passphrase: {error}") from error


def _of_keychain() -> str:
    """Return what the keychain holds; empty where there is none, or it is closed."""
    try:
        return str(import_module("keyring").get_password(SERVICE, NAME) or "")
    except Exception:  # whichever error its backend has
        return ""
