"""A definition as YAML, as a person would lay it out: short things on one line, nodes below each other."""

from __future__ import annotations

from typing import Any, Final

import yaml

from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.definition.compiler.source import is_text

WIDTH: Final = 100
_LINE_ENDS: Final = frozenset("\r\x85\u2028\u2029\ufeff")


class _Dumper(yaml.SafeDumper):
    """Writes no anchors, and quotes what YAML 1.1 or 1.2 would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """The library knows what YAML 1.1 reads as a number, and not what 1.2 does; nor that it folds rare line ends."""
    style = '"' if _LINE_ENDS.intersection(text) else None if is_text(text) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _write_text)


def yaml_of(definition: m.Definition, tests: Any = None) -> str:
    """The text. Compiling it gives the same definition. ``tests`` are the document's own: a definition has none."""
    document = {**write_document(definition), **({"tests": tests} if tests else {})}
    return "".join(_dumped({name: value}) for name, value in document.items())


def _dumped(value: Any) -> str:
    return yaml.dump(
        _laid_out(value, 0), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=False
    )


class _Short(dict[str, Any]):
    """A map that fits on one line."""


class _ShortList(list[Any]):
    """A list that fits on one line."""


_Dumper.add_representer(
    _Short, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=True)
)
_Dumper.add_representer(
    _ShortList, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)
)


def _laid_out(value: Any, depth: int) -> Any:
    """The value with what fits on one line marked so. Where nodes stand, each has a line of its own."""
    if isinstance(value, dict):
        if depth > 1 and _is_short(value):
            return _Short({name: _laid_out(item, depth + 1) for name, item in value.items()})
        return {name: _laid_out(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        if _is_short(value) and not any(isinstance(item, dict) for item in value):
            return _ShortList(_laid_out(item, depth + 1) for item in value)
        return [_laid_out(item, depth + 1) for item in value]
    return value


def _is_short(value: Any) -> bool:
    return len(repr(value)) <= WIDTH - 30 and not _has_nodes(value)


def _has_nodes(value: Any) -> bool:
    """Whether lists of nodes are inside: a list of maps."""
    if isinstance(value, dict):
        return any(_has_nodes(item) for item in value.values())
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)
