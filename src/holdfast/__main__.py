"""``python -m holdfast``: the command line, where no ``holdfast`` is on the PATH."""

from __future__ import annotations

from holdfast.cli.main import main

if __name__ == "__main__":
    main(prog_name="holdfast")
