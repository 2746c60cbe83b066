"""Flat types: dataclasses and structs whose fields are texts, whole numbers, truth values, bytes, or such types again.

Their values are written straight from their fields. Nothing has to be converted or looked for: the canonical order of
the names is known from the type, and a field either has its exact type or the value is left to the general way, which
says what is wrong with it. A law test compares the two.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.journal import cbor

FlatWriter = Callable[[Any], bytes]
"""Writes a value of one exact type. Raises one of ``NOT_FLAT`` for a value that is not as its type declares."""

NOT_FLAT: Final = (KeyError, AttributeError, cbor.Unfit)


def flat_writer(kind: Any, outer: tuple[Any, ...] = ()) -> FlatWriter | None:
    """The writer of a flat type; None for any other. ``outer`` are the types that it is a part of."""
    if kind in outer or not (_is_plain_dataclass(kind) or _is_plain_struct(kind)):
        return None
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:  # names that cannot be resolved: whoever needs them says so
        return None
    is_struct = issubclass(kind, msgspec.Struct)
    names = kind.__struct_fields__ if is_struct else tuple(field.name for field in dataclasses.fields(kind))
    fields: list[tuple[bytes, str, dict[type, FlatWriter]]] = []
    for name in names:
        writers = _field_writers(hints[name], (*outer, kind))
        if writers is None or name.startswith("_"):
            return None
        fields.append((cbor.text(name), name, writers))
    fields.sort(key=lambda field: field[0])
    head = cbor.map_head(len(fields))

    def write(value: Any) -> bytes:
        parts = [head]
        for written, name, writers in fields:
            item = getattr(value, name)
            parts += (written, writers[type(item)](item))
        return b"".join(parts)

    return write


def _field_writers(annotation: Any, outer: tuple[Any, ...]) -> dict[type, FlatWriter] | None:
    """How a field of this type is written, by the exact type of its value; None where it may be anything else."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    found: dict[type, FlatWriter] = {}
    for kind in typing.get_args(annotation) if is_union else (annotation,):
        writer = cbor.SCALARS.get(kind) if isinstance(kind, type) else None
        writer = writer or flat_writer(kind, outer)
        if writer is None:
            return None
        found[kind] = writer
    return found


def _is_plain_dataclass(kind: Any) -> bool:
    """Whether it is a dataclass without code of its own, that is made of all its fields."""
    return (
        isinstance(kind, type)
        and dataclasses.is_dataclass(kind)
        and not hasattr(kind, "__post_init__")
        and not hasattr(kind, "__pydantic_validator__")
        and all(field.init for field in dataclasses.fields(kind))
    )


def _is_plain_struct(kind: Any) -> bool:
    """Whether it is a struct that is written as a map of its fields, all of them, by their own names."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)) or hasattr(kind, "__post_init__"):
        return False
    config = kind.__struct_config__
    return (
        not (config.array_like or config.omit_defaults)
        and config.tag is None
        and kind.__struct_encode_fields__ == kind.__struct_fields__
    )
