"""A picture as JSON: boxes and edges with their places, for programs that draw or measure themselves."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from holdfast.drawing.picture import Picture

FORMAT: Final = "holdfast picture/1"


def record_of(picture: Picture) -> dict[str, Any]:
    """The picture as plain data. Its keys are stable: new ones may come, none is renamed."""
    found = {"format": FORMAT, **msgspec.to_builtins(picture)}
    for box in found["boxes"]:
        box["texts"] = [{"text": line["text"], "style": line["style"]} for line in box["texts"]]
    return found


def json_of(picture: Picture) -> str:
    """The JSON text."""
    return json.dumps(record_of(picture), ensure_ascii=False, indent=1) + "\n"
