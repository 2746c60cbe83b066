"""Named schemas of a machine's values: ``ns/Name@1``, made from types; and the one form of each value as bytes.

A dataclass, a msgspec struct, a pydantic model, a TypedDict or an enum is named after its class, in the namespace
``app`` and version 1, unless ``@schema("acme/Placed@2")`` or a class attribute ``__schema__`` says otherwise. Scalars
have names of their own in ``sys``. Bytes are canonical CBOR, and decoding is strict: what does not encode to itself
again is refused, so nothing is guessed, filled in or converted, and equal values have equal bytes.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import functools
import re
import types
import typing
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import msgspec

from holdfast.errors import InvalidFunction, SchemaMismatch
from holdfast.journal import cbor
from holdfast.programs.machine.flat_writer import NOT_FLAT, flat_writer

NAMESPACE: Final = "app"
SYSTEM: Final = "sys"
"""The namespace of scalars, and of what the engine itself delivers."""

_NAME: Final = re.compile(
    r"(?P<space>[A-Za-z][\w.-]*)/(?P<name>[A-Za-z][\w.-]*)@(?P<version>[1-9][0-9]{0,8})", re.ASCII
)
_ATTRIBUTE: Final = "__schema__"
_AS_IS: Final = (bytes,)

SCALARS: Final[Mapping[type, str]] = {
    str: "sys/Text@1",
    int: "sys/Integer@1",
    float: "sys/Number@1",
    bool: "sys/Truth@1",
    bytes: "sys/Bytes@1",
    uuid.UUID: "sys/Uuid@1",
    datetime.datetime: "sys/Time@1",
    datetime.date: "sys/Date@1",
    datetime.timedelta: "sys/Duration@1",
    decimal.Decimal: "sys/Decimal@1",
}

_UNCHANGED: Final = frozenset({str, int, bool, bytes})
"""The types that are written and read as they are."""

_Kind = TypeVar("_Kind")


class SchemaName(NamedTuple):
    """The parts of a schema's name."""

    space: str
    name: str
    version: int

    def __str__(self) -> str:
        return f"{self.space}/{self.name}@{self.version}"


def parse_name(text: str) -> SchemaName:
    """The parts of ``ns/Name@1``. Raises ValueError."""
    found = _NAME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no name of a schema: write it as namespace/Name@1")
    return SchemaName(found[1], found[2], int(found[3]))


def schema(name: str) -> Callable[[_Kind], _Kind]:
    """Name the schema of a class: ``@schema("acme/Placed@2")``. Raises InvalidFunction for what is no name."""
    try:
        parse_name(name)
    except ValueError as error:
        raise InvalidFunction(f"@schema: {error}.") from error

    def named(kind: _Kind) -> _Kind:
        setattr(kind, _ATTRIBUTE, name)
        return kind

    return named


def name_of(kind: Any) -> str:
    """The name of a type's schema. Raises InvalidFunction for a type that has none."""
    if kind in SCALARS:
        return SCALARS[kind]
    if not isinstance(kind, type):
        raise InvalidFunction(
            f"{kind} has no name, so it cannot be a schema: use a dataclass, a msgspec.Struct, a pydantic model, a "
            "TypedDict or a scalar, with what is in it as fields."
        )
    given = vars(kind).get(_ATTRIBUTE)  # not that of a base: a subclass is another type
    name = f"{NAMESPACE}/{kind.__name__}@1" if given is None else given
    try:
        parse_name(name)
    except (ValueError, TypeError) as error:
        raise InvalidFunction(f"the schema of {kind.__qualname__}: {error}.") from error
    return str(name)


def arms_of(annotation: Any) -> tuple[Any, ...]:
    """The types of a union such as ``Placed | Expired``, without None; of any other type itself."""
    annotation = getattr(annotation, "__supertype__", annotation)  # a NewType is its type
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return () if annotation is type(None) else (annotation,)
    return tuple(arm for one in typing.get_args(annotation) for arm in arms_of(one))


class ValueSchema:
    """A named schema: the type of its values, how they are written and read.

    One that was written as JSON Schema, without a type, has plain data as its values. Raises InvalidFunction for a type
    that cannot be one, and ValueError for what is no JSON Schema.
    """

    __slots__ = ("_faults", "_is_instance", "_write_flat", "json_schema", "kind", "name")

    def __init__(self, kind: Any, name: str | None = None, written: Mapping[str, Any] | None = None) -> None:
        self.kind = kind if written is None else Any
        self.name = name_of(kind) if name is None else str(parse_name(name))
        self._is_instance = _instance_check(self.kind)
        self.json_schema = _json_schema(kind, self.name) if written is None else dict(written)
        self._faults = None if written is None else _validator(self.json_schema)
        self._write_flat = flat_writer(self.kind)

    def __repr__(self) -> str:
        return f"ValueSchema({self.name})"

    def encode(self, value: object) -> bytes:
        """The one form of a value. Raises SchemaMismatch for one of another type, in whole or in part."""
        if self._write_flat is not None and type(value) is self.kind:
            try:
                return self._write_flat(value)
            except NOT_FLAT:
                pass  # the general way says what is wrong
        if not self._is_instance(value):
            raise self._misfit(f"a value of type {type(value).__qualname__} was given", "", "give one of its type")
        try:
            plain = _plain(value)
        except Exception as error:  # a model's own code may raise anything
            raise self._misfit(str(error), "", "use plain data in its fields") from error
        return self._written(self._converted(plain), plain)

    def decode(self, data: bytes) -> Any:
        """The value of these bytes. Raises SchemaMismatch for any that ``encode`` would not write."""
        try:
            if self.kind in _UNCHANGED:
                plain = cbor.read(data)
                return plain if type(plain) is self.kind else self._converted(plain)
            plain = cbor.parse(data)
            if self._write_flat is not None:
                value = self._flat(plain, data)
                if value is not None:
                    return value
            value = self._converted(plain)
            again = _plain(value)
            if cbor.canonical(again) != data:
                cbor.read(data)
                raise self._difference(plain, again)
        except cbor.NotCanonical as error:
            raise self._misfit(f"the bytes cannot be read: {error}", "", "send canonical CBOR") from error
        except TypeError as error:  # a value of no data where the type allows anything
            raise self._misfit(str(error), "", "send canonical CBOR") from error
        return value

    def check(self, plain: object, data: bytes) -> None:
        """Raises SchemaMismatch where plain data, or its canonical bytes, are of no value of this schema."""
        if self.kind not in _UNCHANGED or type(plain) is not self.kind:
            self.decode(data)

    def accept(self, plain: object) -> Any:
        """The value of plain data that somebody wrote by hand, such as JSON. Raises SchemaMismatch.

        Defaults are filled in, and a time may be written in any of its forms. Names that are not known are refused.
        """
        value = self._converted(plain)
        unknown = _unknown(plain, _plain(value), "")
        if unknown is not None:
            raise self._misfit("there is no such field", unknown, "leave it out, or declare it")
        return value

    def _flat(self, plain: object, data: bytes) -> Any:
        """The value of a flat type that is written as these bytes; None where the general way must look."""
        assert self._write_flat is not None
        try:
            value = msgspec.convert(plain, self.kind, builtin_types=_AS_IS)
            return value if self._write_flat(value) == data else None
        except (*NOT_FLAT, msgspec.ValidationError):
            return None

    def _converted(self, plain: object) -> Any:
        if self._faults is not None:
            for place, problem in self._faults(plain):
                raise self._misfit(problem, place, _REMEDY)
        try:
            value = msgspec.convert(plain, self.kind, builtin_types=_AS_IS, dec_hook=_read_model, strict=True)
            _complete(value)
        except msgspec.ValidationError as error:
            problem, _, place = str(error).partition(" - at `")
            raise self._misfit(problem, place.rstrip("`").removeprefix("$").lstrip("."), _REMEDY) from error
        except Exception as error:  # a model's own code may raise anything
            raise self._misfit(str(error), "", _REMEDY) from error
        return value

    def _written(self, value: object, plain: object) -> bytes:
        """The bytes of a value that was read back from ``plain``: they say the same unless something was converted."""
        again = _plain(value)
        try:
            data = cbor.canonical(again)
            if plain != again and cbor.canonical(plain) != data:
                raise self._difference(plain, again)
        except (cbor.TooDeep, UnicodeEncodeError, OverflowError) as error:
            raise self._misfit(str(error), "", "use less deeply nested data, and texts that are Unicode") from error
        return data

    def _difference(self, given: object, expected: object) -> SchemaMismatch:
        place, problem, remedy = _compare(given, expected, "")
        return self._misfit(problem, place, remedy)

    def _misfit(self, problem: str, field: str, remedy: str) -> SchemaMismatch:
        place = f"field {field!r}" if field else "the value"
        return SchemaMismatch(f"{self.name}: {place}: {problem.rstrip('.')}: {remedy}.", field)


@functools.cache
def scalar_schemas() -> Mapping[str, ValueSchema]:
    """The schemas of scalars by name."""
    return {name: ValueSchema(kind) for kind, name in SCALARS.items()}


_REMEDY: Final = "give what the schema declares"


def _instance_check(kind: Any) -> Callable[[object], bool]:
    if typing.is_typeddict(kind):
        return lambda value: type(value) is dict
    if kind is float:
        return lambda value: type(value) in (float, int)
    if kind in SCALARS:
        return lambda value: type(value) is kind
    return lambda value: kind is Any or not isinstance(kind, type) or isinstance(value, kind)


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value, builtin_types=_AS_IS, enc_hook=_write_model, order="deterministic")


def _complete(value: Any) -> None:
    """Give dataclasses the defaults that they were read without. The library leaves those on the class, and then writes
    such a value without them: one value would have two forms."""
    kind: type = type(value)
    if kind in (list, tuple, set, frozenset):
        for item in value:
            _complete(item)
    elif kind is dict:
        for item in value.values():
            _complete(item)
    elif kind not in SCALARS:
        own = getattr(value, "__dict__", None)
        for name in _field_names(kind):
            found = getattr(value, name)
            if own is not None and name not in own and dataclasses.is_dataclass(kind):
                object.__setattr__(value, name, found)
            _complete(found)


@functools.lru_cache(maxsize=1024)
def _field_names(kind: Hashable) -> tuple[str, ...]:
    """The fields of a struct or a dataclass; nothing for any other type."""
    assert isinstance(kind, type)
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


def _write_model(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} is no data")


def _read_model(kind: type, data: object) -> object:
    validate = getattr(kind, "model_validate", None)
    if callable(validate):
        return validate(data)
    raise TypeError(f"{kind!r} is no type of data")


def _json_schema(kind: Any, name: str) -> dict[str, Any]:
    own = getattr(kind, "model_json_schema", None)
    try:
        found: dict[str, Any] = own() if callable(own) else msgspec.json.schema(kind, schema_hook=_model_schema)
    except Exception as error:
        raise InvalidFunction(
            f"{name}: {kind!r} cannot be a schema ({error}): use a dataclass, a msgspec.Struct, a pydantic model, a "
            "TypedDict or a scalar, of plain data."
        ) from error
    return found


def _validator(schema: dict[str, Any]) -> Callable[[object], Iterator[tuple[str, str]]]:
    """What says where and how plain data does not fit a JSON Schema. Raises ValueError."""
    import jsonschema_rs  # loaded only for schemas without a type

    try:
        validator = jsonschema_rs.validator_for(schema, retriever=_retrieve_nothing, validate_formats=True)
    except jsonschema_rs.ValidationError as error:
        raise ValueError(error.message) from error

    def faults(plain: object) -> Iterator[tuple[str, str]]:
        try:
            for error in validator.iter_errors(plain):
                yield ".".join(map(str, error.instance_path)), error.message
        except ValueError as error:  # bytes, which JSON does not have
            yield "", str(error)

    return faults


def _retrieve_nothing(uri: str) -> NoReturn:
    raise ValueError(f"{uri} stands elsewhere: a schema is complete in itself")


def _model_schema(kind: type) -> dict[str, Any]:
    own = getattr(kind, "model_json_schema", None)
    if callable(own):
        return dict(own())
    raise NotImplementedError(f"{kind!r} is no type of data")


def _join(place: str, name: object) -> str:
    if isinstance(name, int):
        return f"{place}[{name}]"
    return f"{place}.{name}" if place else str(name)


def _compare(given: Any, expected: Any, place: str) -> tuple[str, str, str]:
    """Where, and how, data differs from what encodes to itself: the place, the problem, the remedy."""
    if isinstance(given, dict) and isinstance(expected, dict):
        for name in sorted(given.keys() | expected.keys(), key=str):
            if name not in expected:
                return _join(place, name), "there is no such field", "leave it out, or declare it"
            if name not in given:
                return _join(place, name), "it is missing", "give it, even where it has a default"
            if not _is_same(given[name], expected[name]):
                return _compare(given[name], expected[name], _join(place, name))
    if isinstance(given, list) and isinstance(expected, list) and len(given) == len(expected):
        for at, (one, other) in enumerate(zip(given, expected, strict=True)):
            if not _is_same(one, other):
                return _compare(one, other, _join(place, at))
    return place, f"it is {_shown(given)}, and in canonical form {_shown(expected)}", "write it in that form"


def _is_same(one: object, other: object) -> bool:
    return cbor.canonical(one) == cbor.canonical(other)


def _unknown(given: Any, known: Any, place: str) -> str | None:
    """The first name in plain data that was not taken up."""
    if isinstance(given, Mapping) and isinstance(known, dict):
        for name, item in given.items():
            if name not in known:
                return _join(place, name)
            if (found := _unknown(item, known[name], _join(place, name))) is not None:
                return found
    if isinstance(given, list) and isinstance(known, list):
        for at, (item, other) in enumerate(zip(given, known, strict=False)):
            if (found := _unknown(item, other, _join(place, at))) is not None:
                return found
    return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
