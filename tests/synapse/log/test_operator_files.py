"""The files that the operator writes: how they are read, and what of them is left out."""

import os
import pwd
import stat

import pytest

from synapse.errors import InvalidEntry, NewerProtocol, StoreError
from synapse.log import operator_files
from synapse.log.operator_files import OperatorFiles
from synapse.model.agents import Agent
from synapse.model.settings import PROTOCOL, Settings


@pytest.fixture
def files(tmp_path):
    (tmp_path / "agents").mkdir()
    (tmp_path / "synapse.yaml").write_text(f"protocol: {PROTOCOL}\n")
    return OperatorFiles(str(tmp_path))


@pytest.fixture
def write(tmp_path):
    def written(path, text, mode=0o644):
        place = tmp_path / path
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
        place.chmod(mode)

    return written


# -- the protocol ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"protocol: {PROTOCOL}\n",
        f"# a word\nprotocol: {PROTOCOL}\n",
        f"protocol:{PROTOCOL}\n",
        "staging: {limit: 7}\n",
        "",
        b"\xff",
    ],
)
def test_what_is_of_this_protocol_or_cannot_be_read_is_not_refused_here(files, write, text):
    write("synapse.yaml", text)
    files.refuse_newer()


def test_without_settings_nothing_is_refused(files, tmp_path):
    (tmp_path / "synapse.yaml").unlink()
    files.refuse_newer()


def test_a_newer_protocol_is_refused_though_the_rest_means_nothing_here(files, write):
    write("synapse.yaml", f"protocol: {PROTOCOL + 1}\nnew: [1, {{a}}]\n: :\n")
    with pytest.raises(NewerProtocol):
        files.refuse_newer()


# -- agents ----------------------------------------------------------------------------------------


def test_agents_are_the_files_that_people_see_in_their_order(files, write, tmp_path):
    for name in ("b.yaml", "a.yaml", ".c.yaml", "d.yml", "e.yaml~"):
        write(f"agents/{name}", f"id: {name[0]}\n")
    assert files.declared() == ["agents/a.yaml", "agents/b.yaml"]
    assert [agent.id for agent in files.agents()] == ["a", "b"]


def test_a_declaration_that_cannot_be_read_leaves_the_others(files, write, tmp_path):
    write("agents/a.yaml", "id: [")
    write("agents/b.yaml", b"id: \xff\n")
    write("agents/c.yaml", "id: c\n", mode=0o646)
    (tmp_path / "agents" / "d.yaml").mkdir()
    (tmp_path / "agents" / "e.yaml").symlink_to("f.yaml")
    write("agents/f.yaml", "id: f\n")
    assert [agent.id for agent in files.agents()] == ["f"]


def test_a_byte_that_is_no_text_is_named(files, write):
    write("agents/b.yaml", b"id: b\nrole: \xff\n")
    with pytest.raises(InvalidEntry, match=r"^agents/b.yaml: not UTF-8: byte 12 cannot be read$"):
        files.declaration("agents/b.yaml")


def test_no_folder_has_no_agents_and_one_that_fails_is_an_error(files, tmp_path):
    (tmp_path / "agents").rmdir()
    assert files.declared() == []
    (tmp_path / "agents").write_text("")
    with pytest.raises(StoreError, match=r"^agents/ cannot be read: "):
        files.declared()


def test_a_declaration_is_read_as_far_as_64_kib(files, write):
    write("agents/a.yaml", b"#" * 70_000)
    assert len(files.declared_raw("agents/a.yaml")) == 1 << 16


# -- settings --------------------------------------------------------------------------------------


def test_settings_that_are_gone_are_of_no_protocol(files, tmp_path):
    (tmp_path / "synapse.yaml").unlink()
    assert files.read_settings(Settings(staging_limit=7)) == (Settings(protocol=0), ())
    assert files.settings() == Settings(protocol=0)


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("staging: {limit: 9}\n", 0o646, "not taken: everybody may write it; use chmod o-w"),
        (b"# \xff\n", 0o644, "not UTF-8: byte 2 cannot be read"),
    ],
)
def test_where_the_file_cannot_be_read_the_last_good_settings_hold(files, write, text, mode, why):
    write("synapse.yaml", text, mode)
    last = Settings(staging_limit=7)
    settings, strays = files.read_settings(last)
    assert (settings, [(stray.path, stray.text) for stray in strays]) == (last, [("", why)])
    assert files.read_settings(None)[0] == Settings()


def test_settings_that_are_no_file_are_an_error(files, tmp_path):
    (tmp_path / "synapse.yaml").unlink()
    (tmp_path / "synapse.yaml").mkdir()
    with pytest.raises(StoreError, match=r"^synapse.yaml cannot be read: "):
        files.settings()


# -- what changed ----------------------------------------------------------------------------------


def test_a_signature_is_time_size_and_inode(files, write, tmp_path):
    write("agents/a.yaml", "id: a\n")
    write("agents/b.yaml", "id: b\n", mode=0o646)
    found = files.signatures()
    for path, sign in (("synapse.yaml", 1), ("agents/a.yaml", 1), ("agents/b.yaml", -1)):
        status = os.stat(tmp_path / path)
        wanted = (status.st_mtime_ns, status.st_size, sign * status.st_ino)
        assert found.pop(path) == wanted
    assert found == {}


def test_a_file_that_is_gone_has_no_signature(files, tmp_path):
    (tmp_path / "synapse.yaml").unlink()
    (tmp_path / "agents" / "a.yaml").symlink_to("nowhere")
    assert files.signatures() == {}


def test_a_file_that_the_system_will_not_show_is_an_error(files, tmp_path):
    (tmp_path / "agents" / "a.yaml").symlink_to("a.yaml")
    with pytest.raises(StoreError, match=r"^agents/a.yaml cannot be read: "):
        files.signatures()


# -- drop boxes ------------------------------------------------------------------------------------


def test_a_drop_box_is_for_its_agent_and_others_pass_through(files, tmp_path):
    files.make_inbox(Agent("eng"))
    modes = {
        path: stat.S_IMODE(os.stat(tmp_path / path).st_mode)
        for path in ("inbox", "inbox/eng", "inbox/eng/tmp", "inbox/eng/new")
    }
    assert modes == {
        "inbox": 0o711,
        "inbox/eng": 0o711,
        "inbox/eng/tmp": 0o700,
        "inbox/eng/new": 0o700,
    }


@pytest.mark.parametrize("missing", [("new", "tmp"), ("tmp",), ("new",), ()])
def test_folders_are_put_on_the_disk_where_one_is_new(files, tmp_path, monkeypatch, missing):
    files.make_inbox(Agent("eng"))
    for name in missing:
        (tmp_path / "inbox" / "eng" / name).rmdir()
    synced = []
    monkeypatch.setattr(operator_files, "sync_directory", synced.append)
    files.make_inbox(Agent("eng"))
    inbox = str(tmp_path / "inbox")
    assert synced == ([f"{inbox}/eng", inbox] if missing else [])


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: only root gives files away")
@pytest.mark.parametrize(
    ("user", "uid"), [("nobody", None), ("4711", 4711), ("no-such-user", 0), ("", 0)]
)
def test_root_gives_the_drop_box_to_the_agents_user(files, tmp_path, user, uid):
    files.make_inbox(Agent("eng", user=user))
    for name in ("tmp", "new"):
        owner = os.stat(tmp_path / "inbox" / "eng" / name).st_uid
        assert owner == (pwd.getpwnam("nobody").pw_uid if uid is None else uid)
    assert os.stat(tmp_path / "inbox" / "eng").st_uid == 0
    assert operator_files._uid("a\0b") == -1
