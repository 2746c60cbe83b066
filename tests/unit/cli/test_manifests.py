"""``machines``: manifests from the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from msgspec.structs import replace

from holdfast import Holdfast
from holdfast.cells.cell import decode_cell, encode_cell
from holdfast.client.machines.recordings import read_recording
from holdfast.programs.machine.kind import Machines
from tests.unit.cli.cli_orders import Order, Ordered, order
from tests.unit.cli.conftest import Invoke, lines

APP = ("--app", "tests.unit.cli.cli_orders")


async def _send(url: str, *numbers: str, worker: bool) -> None:
    app = Holdfast(url, worker=worker)
    app.machine_kind = Machines({order.name: order})
    await app.open()
    try:
        for number in numbers:
            place = (await app.machines.send(Ordered(number, 5))).places[0]
            if worker:
                await app.machines.cell(order, number).state(after=place)
                while (await app.machines.cell(order, number).record()).intents:  # type: ignore[union-attr]
                    await app.changed(0.05)
    finally:
        await app.close()


def test_a_manifest_is_governed_from_the_command_line(holdfast: Invoke, database: str, tmp_path: Path) -> None:
    """Each command says what the proposal is then, a refusal why, and what blocks is named."""
    file = tmp_path / "manifest.yaml"
    file.write_text("machines: [cli.order]\nsubscriptions: []\n")
    assert "no manifest is in force" in holdfast("machines", "manifest").stderr
    asyncio.run(_send(database, "a", worker=True))
    assert "declared" in holdfast("machines", "manifest").stdout
    (made,) = lines(holdfast("machines", "propose", str(file), *APP, "--notes", "the first", "--as", "ann", "--json"))
    proposal = made["id"]
    assert (made["status"], made["author"], made["notes"]) == ("proposed", "ann", "the first")
    early = holdfast("machines", "apply", proposal)
    assert (early.exit_code, "is proposed: shadow it first" in early.stderr) == (4, True)
    shadowed = holdfast("machines", "shadow", proposal, *APP)
    assert "machine cli.order: changed\n" in shadowed.stdout
    assert "Seen: 1 recorded events of 1 cells in 1 lanes." in shadowed.stdout
    assert shadowed.exit_code == 0
    assert holdfast("machines", "approve", proposal, "--as", "bob").exit_code == 0
    asyncio.run(_send(database, "b", worker=False))
    blocked = holdfast("machines", "apply", proposal)
    assert blocked.exit_code == 4
    assert "1 events wait in lane 0 of cli.order" in blocked.stderr
    (told,) = lines(holdfast("machines", "apply", proposal, "--json"))
    assert told["error"]["code"] == "manifest_blocked"
    assert [each["kind"] for each in told["blockers"]] == ["events"]
    asyncio.run(_send(database, "c", worker=True))
    applied = holdfast("machines", "apply", proposal, "--as", "bob")
    assert (applied.exit_code, f"proposal {proposal} is applied" in applied.stdout) == (0, True)
    assert f"applied by proposal {proposal}" in holdfast("machines", "manifest").stdout
    assert "ann" in holdfast("machines", "proposals", "--status", "applied").stdout
    missing = holdfast("machines", "reject", "nothing")
    assert (missing.exit_code, "no proposal 'nothing'" in missing.stderr) == (3, True)


def test_a_migration_is_shown_and_nothing_is_changed(holdfast: Invoke, database: str) -> None:
    asyncio.run(_send(database, "a", worker=True))
    shown = holdfast("machines", "migrate", "cli.order", "--dry-run", *APP)
    assert (shown.exit_code, shown.stdout) == (
        0,
        "machine cli.order, version 1: 1 cells unchanged, 0 migrated, 0 cannot be read\n",
    )


def test_a_manifest_file_is_checked(holdfast: Invoke, tmp_path: Path) -> None:
    """All that is wrong is said, with its line."""
    file = tmp_path / "manifest.yaml"
    file.write_text("machines: [cli.order]\n")
    (good,) = lines(holdfast("machines", "check", str(file), *APP, "--json"))
    assert good["valid"]
    unknown = holdfast("machines", "check", str(file))
    assert (unknown.exit_code, "declared by no code" in unknown.stdout) == (1, True)
    file.write_text("machines: [cli.odrer]\nspices: []\n")
    (bad,) = lines(holdfast("machines", "check", str(file), *APP, "--json"))
    assert (bad["valid"], len(bad["faults"])) == (False, 2)


def test_what_was_recorded_is_replayed_against_the_code_without_a_store(
    holdfast: Invoke, database: str, tmp_path: Path
) -> None:
    """The same code agrees; a recording with another state, as other code would have left it, is a difference."""
    asyncio.run(_send(database, "a", "b", worker=True))
    file = tmp_path / "orders.json"
    (told,) = lines(holdfast("machines", "export", "cli.order", "-o", str(file), "--json"))
    assert (told["lanes"], told["cells"]) == (1, 2)
    agreed = holdfast("machines", "replay", str(file), *APP)
    assert (agreed.exit_code, "does the same" in agreed.stdout) == (0, True)
    assert "2 recorded events of 2 cells in 1 lanes" in agreed.stdout
    recording = read_recording(file.read_bytes())
    first, *rest = recording.cells
    record = decode_cell(first.record)
    other = encode_cell(replace(record, state=order.state.encode(Order("lost", 5))))
    changed = replace(recording, cells=(replace(first, record=other), *rest))
    file.write_bytes(msgspec.json.encode(changed))
    differs = holdfast("machines", "replay", str(file), *APP)
    assert differs.exit_code == 1
    assert "'a': {'stage': 'lost'} becomes {'stage': 'billed'}" in differs.stdout
    file.write_text("{}")
    broken = holdfast("machines", "replay", str(file), *APP)
    assert (broken.exit_code, "is no recording of a machine" in broken.stderr) == (2, True)
    missing = holdfast("machines", "export", "cli.nothing", "-o", str(file))
    assert (missing.exit_code, "nothing is recorded" in missing.stderr) == (2, True)
