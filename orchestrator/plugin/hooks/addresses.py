"""Whether an address means the same to everybody. Pure; called by `call_checks`."""

from __future__ import annotations

import re

_HOST = re.compile(r"(?:https?://)?(?:[^/@?#]*@)?(\[[^\]]*\]|[^/:?#\s]+)", re.IGNORECASE)
_LOCAL = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "test")


def is_public(address: str) -> bool:
    """Return whether an address is of a host on the public net: no name of this machine or of a
    private network, which is another one elsewhere and changes with the work at hand."""
    import ipaddress  # of few events, and no hook waits for it otherwise

    match = _HOST.match(address.strip())
    host = match[1].strip("[]").rstrip(".").lower() if match else ""
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        name, _, last = host.rpartition(".")
        return bool(name) and last not in _LOCAL and not last.isdecimal()
