"""Private keys behind a passphrase: no file of the person's holds one that can be used without it,
and whoever has it, or a file with it, goes on as before.
"""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import synapse
from synapse import cli
from synapse.cli.verbs import PROGRAM
from synapse.errors import NoKey, SealError
from synapse.system import home
from synapse.trust import locked_keys, passphrase
from synapse.trust.workspace_keys import WorkspaceKeys

SECRET = "correct horse battery staple"


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name in ("SYNAPSE_AGENT", "SYNAPSE_RUN", passphrase.FILE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SYNAPSE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(locked_keys, "_SCRYPT", (1 << 10, 8, 1))  # that of users takes long
    with synapse.init(str(tmp_path / "memory")) as memory:
        for id in ("ann", "bo"):
            memory.register(synapse.Agent(id, read=["*"], write=["*"]))
        WorkspaceKeys(memory.store).new("ann")
    return str(tmp_path / "memory")


@pytest.fixture
def secret(tmp_path, monkeypatch):
    """A file with the passphrase, as unattended agents are given it."""
    path = tmp_path / "passphrase"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    monkeypatch.setenv(passphrase.FILE, str(path))
    return path


def keys(root, *words):
    return cli.main(["--root", root, "keys", *words], program=PROGRAM)


def files():
    return sorted(Path(home.operator_home(), "keys").rglob("*.json"))


def halves():
    """The private halves that lie there plainly."""
    values = [json.loads(path.read_bytes()) for path in files()]
    return [base64.b64decode(value[name]) for value in values for name in ("seal", "sign")]


def write(root, text, **fields):
    with synapse.open(root) as memory:
        return memory.as_agent("ann").append(text, "api/x", **fields).id


def test_no_file_holds_a_key_that_needs_no_passphrase(root, secret):
    plain = halves()
    assert keys(root, "protect") == 0
    everything = b"".join(path.read_bytes() for path in files())
    for half in plain:
        for form in (half, base64.b64encode(half), half.hex().encode()):
            assert form not in everything
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in everything
    assert SECRET.encode() not in everything
    assert {os.stat(path).st_mode & 0o777 for path in files()} == {0o600}


def test_nothing_is_signed_or_opened_without_it(root, secret, tmp_path, monkeypatch):
    sealed = write(root, "the code is 1234", scope="encrypted", to="agent:ann")
    assert keys(root, "protect") == 0
    monkeypatch.delenv(passphrase.FILE)
    with pytest.raises(NoKey, match="behind a passphrase"):
        write(root, "signed")
    with synapse.open(root) as memory:
        shown = memory.as_agent("ann").get(sealed)
        assert "1234" not in shown.body
        assert [key.here for key in WorkspaceKeys(memory.store).list()] == [True]
    other = tmp_path / "other"
    other.write_text("wrong\n")
    other.chmod(0o600)
    monkeypatch.setenv(passphrase.FILE, str(other))
    with pytest.raises(SealError, match="another passphrase"):
        write(root, "signed")
    other.write_text(SECRET)
    other.chmod(0o644)
    with pytest.raises(NoKey, match="yours alone"):
        write(root, "signed")


def test_with_it_all_goes_on_and_it_is_taken_away_again(root, secret):
    sealed = write(root, "the code is 1234", scope="encrypted", to="agent:ann")
    before = halves()
    assert keys(root, "protect") == 0
    assert write(root, "signed")
    assert keys(root, "rotate", "ann") == 0
    assert keys(root, "new", "bo") == 0
    assert all(locked_keys.is_locked(path.read_bytes()) for path in files())
    with synapse.open(root) as memory:
        assert memory.as_agent("ann").get(sealed).body == "the code is 1234"
        assert memory.verify().ok
    assert keys(root, "unprotect") == 0
    assert len(files()) == 3
    assert {*before} <= {*halves()}


def test_no_agent_and_nobody_without_the_old_one_changes_it(root, secret, monkeypatch):
    assert keys(root, "protect") == 0
    before = [path.read_bytes() for path in files()]
    with monkeypatch.context() as patch:
        patch.setenv("SYNAPSE_AGENT", "ann")
        assert keys(root, "unprotect") == 4
    secret.write_text("wrong")
    assert keys(root, "unprotect") != 0
    assert [path.read_bytes() for path in files()] == before


@pytest.mark.parametrize("field", ["seal", "sign", "id", "owner", "scrypt"])
def test_a_changed_file_is_no_key(root, secret, field):
    assert keys(root, "protect") == 0
    (path,) = files()
    value = json.loads(path.read_bytes())
    value[field] = {"salt": "AAAA", "n": 2, "r": 8, "p": 1} if field == "scrypt" else "x"
    path.write_text(json.dumps(value))
    with pytest.raises(SealError):
        write(root, "signed")


def test_the_keychain_is_asked_where_its_package_is(root, tmp_path):
    """In a process of its own, with a module in the place of the package."""
    (tmp_path / "keyring.py").write_text(
        f"def get_password(service, name):\n    return {SECRET!r}\n"
    )
    code = "from synapse.trust.passphrase import passphrase; print(passphrase())"
    for path, exit_code in ((str(tmp_path), 0), ("", 1)):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == exit_code
        assert (SECRET in done.stdout) == (exit_code == 0)
