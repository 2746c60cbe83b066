"""If the process of a unit or an image is taken over it cannot change code, and what is installed is known."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.unit.deploy.test_deploy import DEPLOY, ROOT, UNITS

CONTAINERFILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
EXPOSURE = 2.0
"""The most that systemd may find open, of 10. It was 7.4 when units had neither a filter nor a bounding set."""


def settings(unit: Path) -> dict[str, str]:
    lines = re.findall(r"^(\w+)=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == len(dict(lines))  # no setting is there twice
    return dict(lines)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_has_bounds(unit: Path) -> None:
    """On memory, on rights, and on system calls."""
    found = settings(unit)
    assert re.fullmatch(r"\d+[MG]", found["MemoryMax"])
    assert found["CapabilityBoundingSet"] == found["AmbientCapabilities"] == ""
    assert found["SystemCallFilter"] == "@system-service"
    assert found["NoNewPrivileges"] == "yes"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_cannot_write_where_its_code_is(unit: Path) -> None:
    """Else who takes the process over also has the next start, and every worker that shares the folder."""
    found = settings(unit)
    assert found["ProtectSystem"] == "strict"
    writable = [PurePosixPath("/var/lib") / found["StateDirectory"], PurePosixPath("/tmp")]
    writable += map(PurePosixPath, found.get("ReadWritePaths", "").split())
    start = shlex.split(found["ExecStart"])
    files = [each for each in start if each.startswith("/")]
    code = [PurePosixPath(each) for each in (found["WorkingDirectory"], *files)]
    assert not [path for path in code if any(path.is_relative_to(each) for each in writable)]
    assert str(PurePosixPath(found["WorkingDirectory"]) / "venv") in PAGE
    assert str(writable[0]) in PAGE


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_little_open(unit: Path, tmp_path: Path) -> None:
    """It knows all settings that confine a unit, and adds up what is left."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("NOT CHECKED: there is no systemd-analyze here, so the confinement of units is not measured")
    copy = tmp_path / unit.name.replace("@", "@1")
    copy.write_text(unit.read_text(encoding="utf-8"), encoding="utf-8")
    command = [analyze, "security", "--offline=true", "--no-pager", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    (level,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert float(level) <= EXPOSURE, done.stdout


# -- the image ---------------------------------------------------------------------------------------------------------


def installed_extras() -> set[str]:
    (extras,) = re.findall(r"holdfast-\*\.whl\)\[([a-z,]+)\]", CONTAINERFILE)
    return set(extras.split(","))


def pinned(name: str) -> dict[str, tuple[str, list[str]]]:
    """The versions of a file of constraints, each with its hashes."""
    text = (DEPLOY / name).read_text(encoding="utf-8")
    found: dict[str, tuple[str, list[str]]] = {}
    for line in re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines():
        requirement, *hashes = re.split(r"\s*--hash=", line)
        (each,) = Requirement(requirement).specifier
        assert each.operator == "==", line
        assert hashes, line
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest.strip()) for digest in hashes), line
        found[canonicalize_name(Requirement(requirement).name)] = each.version, hashes
    return found


def needed(extras: set[str]) -> dict[str, SpecifierSet]:
    """What these extras need themselves, by pyproject.toml."""
    groups = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"], *(line for extra in extras for line in groups[extra])]
    return {canonicalize_name(each.name): each.specifier for each in map(Requirement, lines)}


def everything(names: set[str]) -> set[str]:
    """These and all that they need, in the image's Python: read from what is installed here."""
    from importlib.metadata import requires

    python = re.findall(r"library/python:(\d+\.\d+)", CONTAINERFILE)[0]
    place = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux", "extra": ""}
    found, left = set[str](), set(names)
    while left:
        name = left.pop()
        found.add(name)
        of = [Requirement(line) for line in requires(name) or ()]
        wanted = {canonicalize_name(each.name) for each in of if each.marker is None or each.marker.evaluate(place)}
        left |= wanted - found
    return found


def test_the_image_has_pinned_versions_with_hashes_of_all_that_it_needs() -> None:
    """pip refuses what is not listed, or has another hash: a new release cannot get into an image by itself."""
    extras = installed_extras()
    assert extras == {"server", "postgres", "redis", "otel"}
    versions = pinned("constraints.txt")
    own = needed(extras)
    assert everything(set(own)) <= versions.keys()
    assert {name: versions[name][0] for name, allowed in own.items() if versions[name][0] not in allowed} == {}
    assert "hatchling" in pinned("constraints-build.txt")
    assert PROJECT["build-system"]["requires"] == ["hatchling"]


def test_the_image_installs_nothing_but_that() -> None:
    """Every step of pip checks hashes, or may not ask an index."""
    steps = re.findall(r"\bpip (install|wheel) (.*)", CONTAINERFILE)
    assert len(steps) == 4
    for verb, options in steps:
        checked = "--require-hashes --only-binary :all: -r" in options
        is_alone = verb == "wheel" and "--no-deps --no-build-isolation" in options
        assert checked or is_alone or "--no-index" in options, options


def test_the_base_of_the_image_has_an_exact_version() -> None:
    """A digest is better still, and whoever builds has a registry to ask for it."""
    bases = re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)
    assert len(bases) == 2
    assert len(set(bases)) == 1
    assert re.fullmatch(r"docker\.io/library/python:\d+\.\d+\.\d+-slim-[a-z]+", bases[0])


def test_the_constraints_are_made_again_for_the_same_image() -> None:
    """With the image's Python and extras; the page says how."""
    made = re.findall(r"^constraints:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[0]
    assert set(re.findall(r"--extra (\w+)", made)) == installed_extras()
    python = re.findall(r"library/python:(\d+\.\d+)", CONTAINERFILE)[0]
    assert f"--python-version {python} " in MAKEFILE
    assert "`make constraints`" in PAGE


def test_the_process_in_the_image_cannot_write_where_its_code_is() -> None:
    """Its home is not the folder of the code, which root made."""
    (home,) = re.findall(r"--home-dir (\S+)", CONTAINERFILE)
    (folder,) = re.findall(r"^WORKDIR (\S+)", CONTAINERFILE, re.MULTILINE)
    assert not PurePosixPath(folder).is_relative_to(home)
    assert CONTAINERFILE.index("USER 10001") > CONTAINERFILE.rindex("pip install")


@pytest.mark.parametrize("name", ["jsonschema-rs", "cel-expr-python", "msgspec", "cbor2"])
def test_libraries_that_judge_or_write_have_an_upper_bound(name: str) -> None:
    """Two workers must come to one result, and journals keep their bytes."""
    assert any(each.operator == "<" for each in needed(set())[name])
