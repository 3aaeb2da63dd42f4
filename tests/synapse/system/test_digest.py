"""SHA-256: the same whoever computes it."""

import hashlib
import subprocess
import sys

import pytest

from synapse.system.digest import SHORT, sha256

PARTS = ((), (b"",), (b"one", b"two"), (bytes(SHORT),), (bytes(SHORT), b"and more"))


@pytest.mark.parametrize("parts", PARTS)
def test_it_is_what_openssl_says(parts):
    assert sha256(*parts) == hashlib.sha256(b"".join(parts)).hexdigest()


def test_it_is_the_same_where_openssl_is_not_loaded_and_loads_it_for_much():
    code = (
        "import sys; from synapse.system.digest import SHORT, sha256\n"
        "print(sha256(b'one', b'two'), '_hashlib' in sys.modules)\n"
        "print(sha256(bytes(SHORT + 1)), '_hashlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    small = hashlib.sha256(b"onetwo").hexdigest()
    large = hashlib.sha256(bytes(SHORT + 1)).hexdigest()
    assert done.stdout.split() == [small, "False", large, "True"]
