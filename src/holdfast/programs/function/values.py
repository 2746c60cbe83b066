"""The one boundary between Python values and payloads.

Values are written as canonical CBOR of plain data and read back as the annotated type: msgspec structs, dataclasses,
pydantic models, enums, dates, generics. Never pickle. The result of a step is always read back from its bytes, live and
in replay, so that both see the same value.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any, Final, get_args, get_type_hints

import cbor2
import msgspec

from holdfast.errors import InvalidArguments, InvalidFunction, PayloadTooLarge, Undecodable, Unencodable
from holdfast.journal.cbor import TooDeep, Unfit, readable, write
from holdfast.journal.payload import NOTHING, Payload

PAYLOAD_LIMIT_BYTES: Final = 64 * 1024 * 1024

_AS_IS: Final = (bytes, bytearray)
_FIXED: Final = frozenset({int, str, bool, type(None), float, bytes})


def _write_foreign(value: object) -> object:
    """Values that msgspec does not know: pydantic models are written by their own rules."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    raise NotImplementedError(f"{type(value).__module__}.{type(value).__qualname__}")


def read_foreign(kind: type, data: object) -> object:
    if kind is object:  # any data will do
        return data
    validate = getattr(kind, "model_validate", None)
    if callable(validate):
        return validate(data)
    raise NotImplementedError(f"{kind!r}")


def encode(value: object, what: str = "the value") -> Payload:
    """Write a value. Raises Unencodable or PayloadTooLarge."""
    if value is None:
        return NOTHING
    try:
        return _limited(write(value), what)
    except TooDeep as error:
        raise Unencodable(f"{what} cannot be stored as data: {error}.") from error
    except (Unfit, RecursionError):
        pass
    try:
        plain = msgspec.to_builtins(value, builtin_types=_AS_IS, enc_hook=_write_foreign, order="deterministic")
        data = readable(cbor2.dumps(plain, canonical=True))
    except TooDeep as error:
        raise Unencodable(f"{what} cannot be stored as data: {error}.") from error
    except (TypeError, ValueError, NotImplementedError, RecursionError, OverflowError) as error:
        raise Unencodable(
            f"{what} cannot be stored as data ({type(value).__qualname__}: {error}). Use plain data (numbers, text, "
            "bytes, lists, dicts), a dataclass, a msgspec.Struct or a pydantic model; keep connections and open files "
            "inside the step."
        ) from error
    return _limited(data, what)


def _limited(data: bytes, what: str) -> Payload:
    if len(data) > PAYLOAD_LIMIT_BYTES:
        raise PayloadTooLarge(
            f"{what} is {len(data):,} bytes and the limit is {PAYLOAD_LIMIT_BYTES:,}: keep it in a file or an object "
            "store, and pass its address."
        )
    return Payload(data)


def decode(payload: Payload, kind: Any = Any, what: str = "the value") -> Any:
    """Read a payload as the annotated type. Raises Undecodable."""
    try:
        plain = cbor2.loads(payload.data)
        if kind is Any:
            return plain
        if kind is None or kind is type(None):
            kind = None
        return msgspec.convert(plain, kind, dec_hook=read_foreign, builtin_types=_AS_IS, strict=True)
    except (msgspec.ValidationError, cbor2.CBORError, NotImplementedError, ValueError, TypeError) as error:
        raise Undecodable(
            f"{what} was stored as {_short(payload.data)} and cannot be read as {_type_name(kind)}: {error}. Return "
            "what the annotation says, or make it accept what older code stored."
        ) from error


def _short(data: bytes) -> str:
    try:
        text = repr(cbor2.loads(data))
    except (cbor2.CBORError, ValueError):
        text = repr(data)
    return _limited_text(text)


def _limited_text(text: str) -> str:
    return text if len(text) < 120 else text[:119] + "…"


def _type_name(kind: Any) -> str:
    """A type as an author writes it."""
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


class _Misfit(Exception):
    """An argument does not fit its annotation."""


class Signature:
    """How a function's arguments and result are written and read."""

    __slots__ = (
        "_arguments_of",
        "_fewest",
        "_keywords",
        "_kinds",
        "_most",
        "_parameters",
        "_positional",
        "_rest",
        "_result",
        "_result_of",
        "_whole",
        "name",
    )

    def __init__(self, function: Callable[..., object], name: str) -> None:
        self.name = name
        self._arguments_of = f"the arguments of {name}"  # for messages
        self._result_of = f"the result of {name}"
        try:
            hints = get_type_hints(function)
        except Exception as error:
            raise InvalidFunction(
                f"the annotations of {name!r} cannot be resolved ({error}): define or import every name they use at "
                "module level, outside TYPE_CHECKING."
            ) from error
        self._parameters = inspect.signature(function)
        self._kinds = {name: _readable(kind) for name, kind in hints.items()}
        self._result = self._kinds.pop("return", Any)
        self._positional: list[str] = []
        self._rest = self._keywords = ""
        self._whole: dict[int, Any] = {}
        for parameter in self._parameters.parameters.values():
            if parameter.kind is parameter.VAR_POSITIONAL:
                self._rest = parameter.name
            elif parameter.kind is parameter.VAR_KEYWORD:
                self._keywords = parameter.name
            elif parameter.kind is not parameter.KEYWORD_ONLY:
                self._positional.append(parameter.name)
        self._fewest, self._most = _bounds(self._parameters)

    def write(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Payload:
        """Write a call's arguments. Raises TypeError where they do not fit, as the call itself would."""
        if kwargs or not self._fewest <= len(args) <= self._most:
            self._parameters.bind(*args, **kwargs)
        return encode([args, kwargs], self._arguments_of)

    def in_order(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """A call's arguments, by place where they can be. Raises TypeError where they do not fit."""
        if not kwargs:
            return args, kwargs
        bound = self._parameters.bind(*args, **kwargs)
        return bound.args, bound.kwargs

    def write_checked(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Payload:
        """Write a call's arguments and read them as the call will. Raises InvalidArguments where they do not fit."""
        try:
            payload = self.write(args, kwargs)
        except TypeError as error:
            raise InvalidArguments(f"{self.name} cannot be called like this: {error}") from error
        self.accept(payload)
        return payload

    def accept(self, payload: Payload) -> tuple[list[Any], dict[str, Any]]:
        """Read the arguments of a call that has not begun. Raises InvalidArguments where its caller must change."""
        try:
            return self._typed(*cbor2.loads(payload.data))
        except _Misfit as misfit:
            raise InvalidArguments(str(misfit)) from misfit.__cause__

    def read(self, payload: Payload) -> tuple[list[Any], dict[str, Any]]:
        """Read a call's arguments as their annotated types. Raises Undecodable."""
        return self._read(*cbor2.loads(payload.data))

    def by_name(self, payload: Payload) -> dict[str, Any]:
        """A call's arguments by parameter, as plain data."""
        return self._named(*cbor2.loads(payload.data))

    def read_twice(self, payload: Payload) -> tuple[dict[str, Any], tuple[list[Any], dict[str, Any]]]:
        """A call's arguments by parameter as plain data, and as their annotated types. They share no mutable value."""
        positional, named = cbor2.loads(payload.data)
        by_name = self._named(positional, named)
        if not _FIXED.issuperset(map(type, by_name.values())):
            positional, named = cbor2.loads(payload.data)
        return by_name, self._read(positional, named)

    def _read(self, positional: list[Any], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        try:
            return self._typed(positional, named)
        except _Misfit as misfit:
            raise Undecodable(f"{misfit}. Make the annotation accept what older code stored.") from misfit.__cause__

    def _typed(self, positional: list[Any], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if not self._kinds:
            return positional, named
        if not named and (whole := self._read_whole(positional)) is not None:
            return whole, named
        names = itertools.chain(self._positional, itertools.repeat(self._rest))
        return [self._read_one(value, name, name) for value, name in zip(positional, names, strict=False)], {
            name: self._read_one(value, name, name if name in self._parameters.parameters else self._keywords)
            for name, value in named.items()
        }

    def _named(self, positional: list[Any], named: dict[str, Any]) -> dict[str, Any]:
        by_name: dict[str, Any] = dict(zip(self._positional, positional, strict=False))
        if self._rest:
            by_name[self._rest] = positional[len(self._positional) :]
        for name, value in named.items():
            if name in self._parameters.parameters:
                by_name[name] = value
            else:
                by_name.setdefault(self._keywords, {})[name] = value
        return by_name

    def _read_whole(self, positional: list[Any]) -> list[Any] | None:
        """All arguments in one conversion; None where they do not fit and must be read one by one."""
        count = len(positional)
        kind = self._whole.get(count)
        if kind is None:
            names = itertools.chain(self._positional, itertools.repeat(self._rest))
            kinds = [self._kinds.get(name, Any) for name, _ in zip(names, positional, strict=False)]
            kind = self._whole[count] = tuple.__class_getitem__(tuple(kinds)) if kinds else tuple[()]
        try:
            return list(msgspec.convert(positional, kind, dec_hook=read_foreign, builtin_types=_AS_IS))
        except (msgspec.ValidationError, NotImplementedError, ValueError, TypeError):
            return None

    def _read_one(self, value: Any, name: str, parameter: str) -> Any:
        kind = self._kinds.get(parameter, Any)
        if kind is Any:
            return value
        try:
            return msgspec.convert(value, kind, dec_hook=read_foreign, builtin_types=_AS_IS)
        except (msgspec.ValidationError, NotImplementedError, ValueError, TypeError) as error:
            raise _Misfit(
                f"argument {name!r} of {self.name} is {_limited_text(repr(value))}, which does not fit "
                f"{_type_name(kind)}: {error}"
            ) from error

    def write_result(self, value: object) -> Payload:
        return encode(value, self._result_of)

    def read_result(self, payload: Payload) -> Any:
        """Read a result as its annotated type. Raises Undecodable."""
        return decode(payload, self._result, self._result_of)

    def read_result_anyway(self, payload: Payload) -> Any:
        """The same, or plain data if it does not fit: what undoes a call must not fail with it."""
        try:
            return self.read_result(payload)
        except Undecodable:
            return decode(payload)


def _bounds(signature: inspect.Signature) -> tuple[float, float]:
    """The fewest and the most positional arguments with which a call surely fits, without keywords."""
    fewest, most = 0.0, 0.0
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            most = math.inf
        elif parameter.kind is parameter.KEYWORD_ONLY:
            fewest = math.inf if parameter.default is parameter.empty else fewest
        elif parameter.kind is not parameter.VAR_KEYWORD:
            most += 1
            fewest += parameter.default is parameter.empty
    return fewest, most


def _readable(kind: Any) -> Any:
    """The type that a value is read as: plain data for an annotation that cannot be read as."""
    if kind is inspect.Parameter.empty or isinstance(kind, str) or kind is object:
        return Any
    try:
        msgspec.convert(None, kind, dec_hook=read_foreign)
    except msgspec.ValidationError:
        return kind
    except (TypeError, NotImplementedError):
        return Any
    except Exception:
        return kind
    return kind
