"""Git for the tests, whatever the person's own configuration says. Holds no test."""

import os
import subprocess

_OPTIONS = (
    "user.name=n",
    "user.email=n@localhost",
    "gc.auto=0",
    "maintenance.auto=false",
    "init.defaultBranch=main",
    "protocol.file.allow=always",
)
_GIT = ("git", *(word for option in _OPTIONS for word in ("-c", option)))
_OWN = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": "true"}


def git(folder, *words):
    """Run a command of git in a folder; return what it prints."""
    done = subprocess.run(
        [*_GIT, *map(str, words)],
        cwd=folder,
        env=os.environ | _OWN,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def commit(folder):
    """Commit all that changed."""
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "more")
