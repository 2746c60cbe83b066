"""Kept checkpoints: while a format has its name, these bytes are read, and those of the last one written.

``python -m tests.journals.test_checkpoints`` writes the file. A new format gets a file and a name of its own.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from holdfast.kernel.execution import Execution
from holdfast.runs.checkpoints import FORMAT, seal_checkpoint, unseal_checkpoint
from holdfast.store import protocol as p
from tests.runs import Run, cancel, signal
from tests.strands import Script, strands

FOLDER = Path(__file__).parent / "checkpoints"
EARLIER, GOLDEN = FOLDER / "format-1.cbor", FOLDER / "format-2.cbor"
HEAD = b"h" * 32
SCRIPT = Script(
    [
        [["undoable", "a", 0], ["receive", "left"], ["step", "b", 0]],
        [["sleep", 500_000], ["value"], ["race", "right", 60_000_000]],
        [["join", False, [["c", 0], ["d", 0]]]],
        [["queued", "e", 1], ["child", "f"]],
    ],
    lists=True,
)


def recorded() -> tuple[Run, bytes]:
    """A run with one open promise of every kind, and its checkpoint."""
    run = Run(strands, SCRIPT, edition=1)  # as when the files were written
    run.advance()
    run.advance(run.ok(0, "a"), run.ok(3, "c"), run.failed(5), signal("right", 1), signal("other", "unheard"), after=1)
    run.advance(signal("left", 2), signal("left", 3), resume=False)
    checkpoint = run.execution.checkpoint()
    assert checkpoint is not None
    return run, seal_checkpoint(checkpoint, run.id, "golden", HEAD)


def test_the_bytes_of_a_checkpoint_are_as_they_were() -> None:
    """A change of these bytes needs a new format."""
    assert FORMAT == "holdfast checkpoint/2"
    assert recorded()[1] == GOLDEN.read_bytes()


@pytest.mark.parametrize("kept", [EARLIER, GOLDEN], ids=lambda path: path.stem)
def test_a_run_goes_on_from_the_checkpoint_of_an_earlier_holdfast(kept: Path) -> None:
    """The run continues from that state: it is cancelled, undoes its acts, and ends."""
    run, _ = recorded()
    row = p.CheckpointRow(len(run.journal), HEAD, kept.read_bytes())
    checkpoint = unseal_checkpoint(row, run.id, "golden")
    restored = Execution.restore(run.id, strands.program(), checkpoint, [], run.now, random.Random(0))
    rebuilt = run.rebuilt().execution
    assert restored.waits() == rebuilt.waits()
    assert restored.outstanding() == rebuilt.outstanding()
    turns = [execution.advance([cancel()], run.now).events for execution in (restored, rebuilt)]
    assert turns[0] == turns[1]
    assert len(turns[0]) > 1


if __name__ == "__main__":
    GOLDEN.write_bytes(recorded()[1])
