"""Loading APP: ``module:attribute`` or ``path/to/file.py:attribute``; the attribute is ``app`` where none is given.

The import of the module makes its workflows known. A ``Holdfast`` instance in it has the store and the options to use;
a module without one serves every workflow that it imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

import click

from holdfast.client.engine import Holdfast
from holdfast.errors import HoldfastError, WorkflowUnknown
from holdfast.programs.function.decorators import STEPS
from holdfast.programs.function.functions import Functions
from holdfast.programs.function.reversal import REVERSE

DEFAULT_ATTRIBUTE: Final = "app"


class BadApp(click.ClickException):
    """APP cannot be used: it is not there, or importing it raised."""


def load_app(spec: str) -> Holdfast | None:
    """Import APP. Gives its engine, or None for a module without one. Raises BadApp, or what Holdfast raises in it."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    place, _, attribute = spec.partition(":") if not spec.endswith(".py") else (spec, "", "")
    module = _load_file(place) if place.endswith(".py") else _load_module(place)
    engine = getattr(module, attribute or DEFAULT_ATTRIBUTE, None)
    if isinstance(engine, Holdfast):
        return engine
    if attribute:
        what = "has no attribute" if engine is None else "has something else than a Holdfast instance as"
        raise BadApp(f"{place} {what} {attribute!r}: name one, as in `{attribute} = Holdfast(url)`.")
    if not own_workflows() and not STEPS and not _has_machines():
        what = "@workflow, @step or @machine"
        raise BadApp(f"{place} has neither a Holdfast instance `app` nor a {what}: is it the right module?")
    return None


def _has_machines() -> bool:
    known = sys.modules.get("holdfast.programs.machine.machine")  # who imports no machine does not load them
    return known is not None and bool(known.MACHINES)


def own_workflows() -> list[str]:
    """The names of the workflows that the app defines: all but the engine's own."""
    return sorted(name for name in Functions().names() if name != REVERSE)


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadApp(f"there is no module {name!r}: run in its folder, or give a path that ends in .py.") from error
        raise BadApp(_trouble(name, error)) from error
    except HoldfastError:
        raise
    except Exception as error:
        raise BadApp(_trouble(name, error)) from error


def _load_file(place: str) -> ModuleType:
    path = Path(place)
    if not path.is_file():
        raise BadApp(f"there is no file {place!r}.")
    if str(path.parent.resolve()) not in sys.path:
        sys.path.insert(0, str(path.parent.resolve()))
    # Under its own name: other modules that import it get this module, and not a second one.
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) not in (None, str(path), str(path.resolve())):
        name = f"holdfast_app_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise BadApp(f"{place!r} cannot be imported as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except HoldfastError:
        raise
    except Exception as error:
        raise BadApp(_trouble(place, error)) from error
    return module


def _trouble(place: str, error: Exception) -> str:
    """The error, and its line in the author's code: frames of the engine would not help."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    where = f" (line {frames[-1].lineno} of {frames[-1].filename})" if frames else ""
    if isinstance(error, SyntaxError):
        where = f" (line {error.lineno} of {error.filename})"
    return f"importing {place} raised {type(error).__name__}: {error}{where}"


def _is_ours(filename: str) -> bool:
    return filename == __file__ or "importlib" in filename


def check_workflow(name: str) -> None:
    """Raises WorkflowUnknown, which names the loaded workflows, where there is none of that name."""
    if name not in Functions().names():
        known = ", ".join(own_workflows()) or "none"
        raise WorkflowUnknown(f"the app has no workflow {name!r}; it has: {known}.")


async def check_startable(engine: Holdfast, name: str, tenant: str) -> None:
    """Raises WorkflowUnknown, which names what is loaded, where no workflow or definition has that name."""
    is_function = name in Functions().names()
    if not is_function and await engine.definitions.to_start(name, tenant) is None:
        loaded = [*own_workflows(), *(each.reference for each in engine.definitions)]
        raise WorkflowUnknown(f"the app has no workflow {name!r}; it has: {', '.join(loaded) or 'none'}.")
