"""Views as JSON. The shape is that of the view; what JSON lacks is written as in ``client/views/values``.

Times are ISO 8601 in UTC. Whole numbers are written in full, however large: a reader that turns all numbers into
floating point must read those over 2^53 as text. Bytes are ``{"$base64": …}`` in values of people's programs.

msgspec writes all that has a type. Members that may hold anything are made plain first; which ones these are is found
once for each type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect as mi

from holdfast.client.views.values import plain

Converter = Callable[[Any], Any]

_encoder = msgspec.json.Encoder()


def writer_of(kind: Any) -> Callable[[Any], bytes]:
    """A function that writes views of this type as JSON."""
    convert = _converter(mi.type_info(kind))

    def write(view: Any) -> bytes:
        return _encoder.encode(view if convert is None else convert(view))

    return write


def _converter(kind: mi.Type) -> Converter | None:
    """What makes a value of this type writable; None where it is as it is."""
    match kind:
        case mi.Metadata(type=inner_type):
            return _converter(inner_type)
        case mi.AnyType():
            return plain
        case mi.StructType(fields=fields):
            return _object({field.name: (field.encode_name, _converter(field.type)) for field in fields})
        case mi.UnionType(types=types):
            inner = [found for each in types if (found := _converter(each)) is not None]
            return _optional(inner[0]) if len(inner) == 1 else None
        case mi.ListType(item_type=item) | mi.VarTupleType(item_type=item):
            return _many(_converter(item))
        case mi.DictType(value_type=value):
            return _named(_converter(value))
        case _:
            return None


def _object(members: dict[str, tuple[str, Converter | None]]) -> Converter | None:
    if all(convert is None for _, convert in members.values()):
        return None

    def convert_object(view: Any) -> dict[str, Any]:
        return {
            shown_name: getattr(view, name) if convert is None else convert(getattr(view, name))
            for name, (shown_name, convert) in members.items()
        }

    return convert_object


def _optional(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _many(convert: Converter | None) -> Converter | None:
    return None if convert is None else lambda values: [convert(value) for value in values]


def _named(convert: Converter | None) -> Converter | None:
    return None if convert is None else lambda values: {str(name): convert(value) for name, value in values.items()}
