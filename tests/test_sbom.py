"""The list of packages that a release is made of: what the wheel asks for, as the lock pins it."""

from hashlib import sha256
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench import sbom

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def missing(bill):
    """Return what the product asks for, with any of its extras, and the list lacks."""
    listed = {each["name"] for each in bill["components"]}
    asked = {canonicalize_name(Requirement(text).name) for text in sbom.asked(sbom.project())}
    installed = {canonicalize_name(each.name) for each in metadata.distributions()}
    return (asked & installed) - listed - {sbom.NAME}


def test_it_lists_what_the_product_asks_for_as_the_lock_pins_it():
    bill = sbom.bill(LOCK, "1.2.3")
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert missing(bill) == set()
    names = [each["name"] for each in bill["components"]]
    assert len(names) == len(set(names)) > 30
    assert not {"pytest", "ruff", "mypy", "hypothesis", "towncrier"} & set(names)
    for each in bill["components"]:
        assert f"\n{each['name']}=={each['version']}" in LOCK.lower().replace("[binary]", "")
        assert each["hashes"]
    refs = {each["bom-ref"] for each in bill["components"]}
    own = bill["metadata"]["component"]["bom-ref"]
    assert {each["ref"] for each in bill["dependencies"]} == refs | {own}
    assert {ref for each in bill["dependencies"] for ref in each["dependsOn"]} == refs
    assert bill == sbom.bill(LOCK, "1.2.3")


def test_a_list_without_a_package_is_found_out():
    bill = sbom.bill(LOCK, "1.2.3")
    bill["components"] = [each for each in bill["components"] if each["name"] != "rich"]
    assert missing(bill) == {"rich"}


def test_a_release_has_the_list_and_the_digests_of_its_files(tmp_path):
    (tmp_path / "a.whl").write_bytes(b"wheel")
    sbom.write(tmp_path)
    sums = dict(line.split()[::-1] for line in (tmp_path / sbom.SUMS).read_text().splitlines())
    names = {path.name for path in tmp_path.iterdir()} - {sbom.SUMS}
    assert set(sums) == names
    assert len(names) == 2
    for name, digest in sums.items():
        assert sha256((tmp_path / name).read_bytes()).hexdigest() == digest
