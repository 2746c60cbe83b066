"""An installation like a user's: the built wheel in a virtual environment, without access to the checkout."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.reader import quiet_environment


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment variables of a shell in which the wheel is installed, and can be installed again by name."""
    home = tmp_path_factory.mktemp("installed")
    _run("-m", "hatchling", "build", "-t", "wheel", "-d", str(home / "wheels"), cwd=ROOT)
    _run("-m", "venv", "--without-pip", str(home / "venv"), cwd=home)
    _lend_packages(home)
    pip = home / "venv" / "bin" / "pip"
    pip.write_text('#!/bin/sh\nexec "$(dirname "$0")/python" -W ignore -m pip "$@"\n', encoding="utf-8")
    pip.chmod(0o755)
    environment = quiet_environment(pip.parent) | {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_FIND_LINKS": str(home / "wheels"),
        "PIP_NO_INDEX": "1",
        "PIP_QUIET": "1",
        "XDG_STATE_HOME": str(home / "state"),
    }
    subprocess.run(["pip", "install", "holdfast"], env=environment, cwd=home, check=True)
    return environment


def _lend_packages(home: Path) -> None:
    """Link the installed packages of this session, except Holdfast, which must come from the wheel."""
    lent = home / "lent"
    lent.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "holdfast" not in entry.name and entry.suffix != ".pth":
            (lent / entry.name).symlink_to(entry)
    (packages,) = home.glob("venv/lib/python*/site-packages")
    (packages / "lent.pth").write_text(f"{lent}\n", encoding="utf-8")


def _run(*arguments: str, cwd: Path) -> None:
    subprocess.run([sys.executable, *arguments], cwd=cwd, check=True, capture_output=True)
