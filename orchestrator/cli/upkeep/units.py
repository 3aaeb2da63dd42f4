"""Texts for systemd and cron by which a system runs the nightly job without a daemon."""

from __future__ import annotations

import shlex
from datetime import time

SYSTEMD = """\
# ~/.config/systemd/user/{name}.service
[Unit]
Description=The night of the workspace {root}

[Service]
Type=oneshot
ExecStart={words}

# ~/.config/systemd/user/{name}.timer, then: systemctl --user enable --now {name}.timer
[Unit]
Description=The nights of the workspace {root}

[Timer]
OnCalendar=*-*-* {at} {zone}
OnUnitInactiveSec=1h
Persistent=true

[Install]
WantedBy=timers.target
"""
# cron knows one zone, sleeps with the machine, and skips what clocks skip. So it only asks, and the
# schedule decides.
CRON = """\
# Every ten minutes it asks what is due, which is nothing but once a day: `crontab -e`
*/10 * * * * {words} --quiet
"""


def systemd(root: str, python: str, name: str, at: time, zone: str) -> str:
    """Return a service and a timer. Other nightly jobs may go on: each local date has one run."""
    escaped = " ".join(
        f'"{argument}"' if " " in argument else argument for argument in _words(root, python)
    ).replace("%", "%%")
    return SYSTEMD.format(
        name=name,
        root=root.replace("%", "%%"),
        words=escaped,
        at=at.isoformat("seconds"),
        zone=zone,
    )


def cron(root: str, python: str) -> str:
    return CRON.format(words=shlex.join(_words(root, python)).replace("%", r"\%"))


def _words(root: str, python: str) -> list[str]:
    return [python, "-P", "-m", "orchestrator", "--root", root, "schedule", "--run"]
