"""The cells that stay in memory: at most so many, of at most so many bytes, those that were used last."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cells.cell import CellRecord
from holdfast.programs.machine.lanes.hot_cells import CACHED_CELL_BYTES, CACHED_CELLS, HotCells, resident_bytes
from holdfast.worker.options import WorkerOptions
from tests.scope import volume

KEYS = [bytes([number]) for number in range(6)]


def record(key: bytes, size: int = 0) -> CellRecord:
    return CellRecord(key=key, state=bytes(size))


def test_what_was_used_longest_ago_leaves_first() -> None:
    hot = HotCells(cells=2)
    for key in KEYS[:2]:
        hot.put("lane", key, record(key))
    hot.put("lane", KEYS[0], hot.take("lane", KEYS[0]))
    hot.put("lane", KEYS[2], record(KEYS[2]))

    assert [hot.has("lane", key) for key in KEYS[:3]] == [True, False, True]


def test_a_cell_that_does_not_exist_is_known_not_to() -> None:
    """It is kept as None: an event for a new key after a deletion reads nothing."""
    hot = HotCells()
    hot.put("lane", KEYS[0], None)

    assert hot.has("lane", KEYS[0])
    assert hot.take("lane", KEYS[0]) is None
    assert not hot.has("lane", KEYS[0])


def test_a_large_cell_is_not_kept_at_the_cost_of_others() -> None:
    hot = HotCells(size_bytes=80_000)
    hot.put("lane", KEYS[0], record(KEYS[0], 5_000))
    hot.put("lane", KEYS[1], record(KEYS[1], 20_000))
    hot.put("lane", KEYS[0], record(KEYS[0], 20_000))  # it has grown: the small one that was kept is old

    assert len(hot) == hot.size_bytes == 0


def test_what_is_held_for_a_parked_cell_counts() -> None:
    parked = CellRecord(key=b"k", status="parked", reason="r", held=(bytes(1000), bytes(1000)))

    assert resident_bytes(b"k", parked) - resident_bytes(b"k", None) == 2001


def test_a_lane_that_is_let_go_takes_its_cells_along() -> None:
    """Another object for the same lane must not find what the first had: the lane may have been elsewhere meanwhile."""
    hot = HotCells()
    hot.put("one", KEYS[0], record(KEYS[0]))
    hot.put("other", KEYS[0], record(KEYS[0]))
    hot.forget("one")

    assert not hot.has("one", KEYS[0])
    assert hot.has("other", KEYS[0])
    assert hot.size_bytes == resident_bytes(KEYS[0], record(KEYS[0]))


@settings(max_examples=volume(60, 1000), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(KEYS), st.integers(0, 3000) | st.none()), max_size=30),
    st.integers(0, 4),
    st.integers(0, 20_000),
)
def test_neither_bound_is_ever_exceeded(puts: list[tuple[str, bytes, int | None]], cells: int, size: int) -> None:
    """And what is found is what was put in last."""
    hot, last = HotCells(cells, size), dict[tuple[str, bytes], CellRecord | None]()
    for lane, key, state in puts:
        last[lane, key] = None if state is None else record(key, state)
        hot.put(lane, key, last[lane, key])
        assert len(hot) <= cells
        assert hot.size_bytes <= size
    kept = [place for place in last if hot.has(*place)]
    assert hot.size_bytes == sum(resident_bytes(key, last[lane, key]) for lane, key in kept)
    assert all(hot.take(*place) == last[place] for place in kept)
    hot.limit(0, 0)
    assert len(hot) == hot.size_bytes == 0


def test_the_options_of_a_worker_have_the_same_defaults() -> None:
    """They are written there once more: options are loaded without machines."""
    options = WorkerOptions()
    assert (options.cached_cells, options.cached_cell_bytes) == (CACHED_CELLS, CACHED_CELL_BYTES)
