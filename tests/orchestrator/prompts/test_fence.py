"""The fence: stable, secret, and drawn again only where it would be ambiguous."""

import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.prompts import fence as fences
from orchestrator.prompts.fence import inline, quoted, secret
from synapse.errors import StoreError
from synapse.view.fence import fence

KEY = bytes(range(32))


def test_a_fence_has_48_bits_and_depends_on_secret_and_agent_alone():
    found = fence(KEY, "eng", "some text")
    assert re.fullmatch(r"[0-9a-f]{12}", found)
    assert fence(KEY, "eng", "another text") == found
    assert (
        len({found, fence(KEY, "eng-2", ""), fence(KEY[::-1], "eng", ""), fence(KEY, "en", "g")})
        == 4
    )


@pytest.mark.parametrize("change", [str, str.upper, lambda text: f"</memory-{text}>"])
def test_a_text_that_holds_the_fence_gets_another_always_the_same(change):
    usual = fence(KEY, "eng", "")
    other = fence(KEY, "eng", change(usual))
    assert other != usual
    assert fence(KEY, "eng", f"{change(usual)} and more") == other
    assert fence(KEY, "eng", f"{usual} {other}") not in (usual, other)


def test_the_secret_is_made_once_for_its_owner_alone(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: secret(str(tmp_path)), range(32)))
    assert len(found) == 1
    assert len(found.pop()) == fences.SECRET_BYTES
    assert stat.S_IMODE(os.stat(tmp_path / "runs/.secret").st_mode) == 0o600
    assert os.listdir(tmp_path / "runs") == [".secret"]


def test_a_damaged_secret_is_told_not_replaced(tmp_path):
    secret(str(tmp_path))
    (tmp_path / "runs/.secret").write_bytes(b"short")
    with pytest.raises(StoreError, match="damaged: 5 bytes"):
        secret(str(tmp_path))


def test_a_link_in_place_of_the_secret_is_not_followed(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "elsewhere").write_bytes(KEY)
    (tmp_path / "runs/.secret").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="cannot be read"):
        secret(str(tmp_path))


def test_quoted_text_stands_behind_its_mark_in_every_line():
    assert quoted("a\n\n## b\r\u2028c\n") == "> a\n>\n> ## b<U+000D><U+2028>c\n"
    assert inline("a\n## b  " + "x" * 90) == "a ## b " + "x" * 73 + "…"
