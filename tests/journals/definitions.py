"""The definitions of golden journals. They are never changed: their runs pin them."""

from __future__ import annotations

from typing import Any, Final

from holdfast import step


@step(name="golden.free")
async def free(result: str) -> None: ...


@step(name="golden.book", undo=free)
async def book(what: str) -> str:
    return what


def _document(version: int, *steps: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"holdfast": "definition/1", "name": "golden.trip", "version": version, "steps": list(steps), **parts}


def _call(what: str) -> dict[str, Any]:
    return {"step": "golden.book", "with": {"what": what}}


def _booked(name: str, what: str) -> dict[str, Any]:
    return {name: {**_call(what), "as": f"state.{name}"}}


TRIP: Final = _document(
    1,
    _booked("hotel", "=start.city"),
    {"rest": {"sleep": "1h"}},
    {
        "both": {
            "fork": {
                "papers": [{"visa": {"wait": "papers", "key": "=start.city", "as": "state.papers"}}],
                "guide": [{"ask": {"task": "choose", "as": "state.guide"}}],
            }
        }
    },
    {"each": {"repeat": {"over": "=[1, 2]", "at_once": 2}, "gives": "=item * 2", "do": [{"nap": {"sleep": "1m"}}]}},
    {"plan": {"graph": {"train": _call("train"), "bus": {"needs": ["train"], "set": {"state.bus": True}}}}},
    {"go": {"wait": "go"}},
    {"no": {"raise": {"code": "RAIN", "message": "it rains"}}},
    reference="=start.city",
    start={"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
    tasks={"choose": {"title": "A guide?", "form": {"type": "object", "properties": {"name": {"type": "string"}}}}},
)
"""Every kind of wait, side by side and one after the other; it fails in the end, and undoes what it did."""

MENDED: Final = _document(
    2,
    _booked("hotel", "=start.city"),
    {"start_off": {"wait": "go"}},
    {"done": {"end": "=[state.hotel, state.guide.name]"}},
    state={"guide": {"type": "object", "properties": {"name": {"type": "string"}}}},
    migrate={"1": {"steps": {"go": "start_off"}}},
)
