import pytest

from synapse.errors import NotFound
from synapse.trust.bearer import PREFIX, TokenFile, digest, new_token, revoke


def test_a_token_is_found_by_itself_alone(tmp_path):
    path = str(tmp_path / "tokens")
    text = new_token(path, "eng")
    assert text.startswith(PREFIX)
    found = TokenFile(path)
    assert found.find(text).agent == "eng"
    for wrong in ("", text[:-1], text + "a", text.swapcase(), digest(text), "\ud800"):
        assert found.find(wrong) is None
    assert text not in (tmp_path / "tokens").read_text()


def test_a_token_ends_at_its_time(tmp_path):
    path, at = str(tmp_path / "tokens"), 1_800_000_000_000_000
    text = new_token(path, "eng", expires=at)
    assert TokenFile(path, lambda: at - 1).find(text).expires == at
    assert TokenFile(path, lambda: at).find(text) is None


def test_a_revoked_token_is_nobodys_any_more(tmp_path):
    path = str(tmp_path / "tokens")
    texts = [new_token(path, agent) for agent in ("eng", "eng", "lead")]
    found = TokenFile(path)
    assert [each.agent for each in revoke(path, found.find(texts[0]).id)] == ["eng"]
    assert [found.agent(text) for text in texts] == [None, "eng", "lead"]
    revoke(path, "eng")
    assert [found.agent(text) for text in texts] == [None, None, "lead"]
    with pytest.raises(NotFound):
        revoke(path, "eng")


def test_what_it_may_is_kept(tmp_path):
    path = str(tmp_path / "tokens")
    text = new_token(path, "eng", read_only=True)
    assert TokenFile(path).find(text).read_only


@pytest.mark.parametrize("end", [" read-onl", " expires=", " expires=2026-99", " x"])
def test_a_line_that_a_power_cut_left_is_passed_over(tmp_path, end):
    path = tmp_path / "tokens"
    text = new_token(str(path), "eng")
    with path.open("a") as file:
        file.write(f"lead: {digest('x')}{end}")
    assert TokenFile(str(path)).agent(text) == "eng"
    assert TokenFile(str(path)).agent("x") is None
    other = new_token(str(path), "lead")
    assert TokenFile(str(path)).agent(other) == "lead"
    with path.open("a") as file:
        file.write(f"lead: {digest('x')}{end}\n")
    assert {token.agent for token in TokenFile(str(path)).load().values()} == {"eng", "lead"}


@pytest.mark.parametrize("damage", [b"\xff\xfe", b"g", b" two words ", b":"])
def test_a_damaged_line_harms_its_own_token_alone(tmp_path, damage):
    path = tmp_path / "tokens"
    texts = {agent: new_token(str(path), agent) for agent in ("eng", "qa", "lead")}
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:40] + damage + lines[1][42:] + lines[2])
    assert [TokenFile(str(path)).agent(text) for text in texts.values()] == ["eng", None, "lead"]


def test_a_damaged_end_of_a_token_ends_it(tmp_path):
    path = tmp_path / "tokens"
    text, other = new_token(str(path), "eng"), new_token(str(path), "qa")
    with path.open("a") as file:
        file.write(f"eng: {digest(text)} revo!ed\n")
    assert TokenFile(str(path)).agent(text) is None
    assert TokenFile(str(path)).agent(other) == "qa"


def test_without_a_file_there_are_no_tokens(tmp_path):
    assert TokenFile(str(tmp_path / "none")).find("x") is None
