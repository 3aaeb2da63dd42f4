import os

import pytest

from synapse.cli.checks import probes

MOUNTINFO = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:25 / /proc rw - proc proc rw
41 22 0:40 / /mnt/team\\040share rw master:1 - nfs4 server:/share rw
42 22 8:2 / /home rw,noatime shared:2 - xfs /dev/sdb rw
"""
MOUNT = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
//nova@server/share on /Volumes/share (smbfs, nodev, nosuid, mounted by nova)
"""


@pytest.mark.parametrize("name", sorted(probes.PROBES))
def test_probe_works_here_and_leaves_nothing(name, tmp_path):
    assert probes.PROBES[name](str(tmp_path)) is None
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", sorted(probes.PROBES))
def test_probe_of_a_place_that_is_not_there_says_so(name, tmp_path):
    with pytest.raises(OSError, match="No such file"):
        probes.PROBES[name](str(tmp_path / "missing"))


def test_mountinfo():
    found = dict(probes.parse_mountinfo(MOUNTINFO.splitlines()))
    assert found == {"/": "ext4", "/proc": "proc", "/mnt/team share": "nfs4", "/home": "xfs"}


def test_mount():
    assert probes.parse_mount(MOUNT.splitlines()) == [("/", "apfs"), ("/Volumes/share", "smbfs")]


def test_the_nearest_mount_counts(monkeypatch):
    mounts = [("/", "ext4"), ("/mnt", "xfs"), ("/mnt/nfs", "nfs4"), ("/mnt/n", "tmpfs")]
    monkeypatch.setattr(probes, "_linux_mounts", lambda: mounts)
    monkeypatch.setattr(probes, "_bsd_mounts", lambda: mounts)
    found = [
        probes.file_system_of(path)
        for path in ("/etc", "/mnt/x", "/mnt/nfs/deep/down", "/mnt/nfs2")
    ]
    assert found == ["ext4", "xfs", "nfs4", "xfs"]


def test_this_machine_has_a_file_system(tmp_path):
    assert probes.file_system_of(str(tmp_path)) not in probes.NETWORK
