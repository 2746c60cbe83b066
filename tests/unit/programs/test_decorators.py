"""Decorators refuse what they cannot make durable; names find one function each."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from holdfast.errors import DuplicateName, InvalidFunction, NotInWorkflow
from holdfast.journal.payload import RetryPolicy
from holdfast.programs.function.decorators import STEPS, WORKFLOWS, Step, step, workflow
from holdfast.programs.function.registry import Registry


def plain() -> None: ...


def generator() -> Any:
    yield 1


async def async_generator() -> Any:
    yield 1


class Callable:
    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("options", "function", "problem"),
    [
        ({"retry": RetryPolicy(), "retries": 1}, plain, "not both"),
        ({"retries": -1}, plain, "0 or more"),
        ({"timeout": 0}, plain, "more than 0"),
        ({"heartbeat_timeout": -1}, plain, "more than 0"),
        ({"concurrency": 2}, plain, "queue="),
        ({"queue": "q", "concurrency": 0}, plain, "1 or more"),
        ({"undo": plain}, plain, "decorate it with @step"),
        ({}, generator, "returns once"),
        ({}, async_generator, "returns once"),
        ({}, 5, "a step is a function"),
        ({}, Callable(), "a step is a function"),
        ({}, functools.partial(plain), "a step is a function"),
        ({"name": " "}, plain, "no usable name"),
        ({"name": "x" * 201}, plain, "no usable name"),
    ],
)
def test_a_step_that_cannot_work_is_refused(options: dict[str, Any], function: Any, problem: str) -> None:
    """At import, where the author sees it, with a message that names the fault."""
    with pytest.raises(InvalidFunction, match=problem):
        step(**options)(function)


@pytest.mark.parametrize("function", [plain, generator, async_generator], ids=lambda function: function.__name__)
def test_a_workflow_is_an_async_function(function: Any) -> None:
    """The error suggests a step for a plain function."""
    with pytest.raises(InvalidFunction, match="@step"):
        workflow(function)


def test_retries_are_attempts_after_the_first() -> None:
    """``retries=2`` means three attempts; without it there is one."""

    @step(retries=2)
    def often() -> None: ...

    @step
    def once() -> None: ...

    assert often.retry.max_attempts == 3
    assert once.retry.max_attempts == 1


def test_a_step_outside_a_workflow_is_just_a_function() -> None:
    """Steps can call steps, and tests can call both."""

    @step
    async def double(n: int) -> int:
        return 2 * n

    @step
    def triple(n: int) -> int:
        return 3 * n

    async def both() -> int:
        return await double(2) + await triple(2)

    assert asyncio.run(both()) == 10


def test_a_workflow_outside_a_workflow_says_how_to_start_it() -> None:
    """Calling it could start nothing durable."""

    @workflow
    async def lonely() -> None: ...

    with pytest.raises(NotInWorkflow, match=r"app\.start\(lonely"):
        lonely()


def test_definitions_keep_their_functions_face() -> None:
    """Name, doc and module are the function's own; ``name=`` is how it is found."""

    @step(name="definitions.renamed")
    def original() -> None:
        """Its doc."""

    assert original.__name__ == "original"
    assert original.__doc__ == "Its doc."
    assert STEPS["definitions.renamed"] is original
    assert repr(original) == "<step definitions.renamed>"


def test_the_digest_follows_the_code() -> None:
    """J-04: a change of code can be seen."""

    @workflow
    async def flow() -> int:
        return 1

    first = flow.digest

    @workflow  # type: ignore[no-redef]
    async def flow() -> int:
        return 2

    assert flow.digest != first
    assert WORKFLOWS["flow"] is flow


class Entry:
    """What a registry sees of a definition."""

    def __init__(self, name: str, module: str, qualname: str) -> None:
        self.name = name
        self.module = module
        self.qualname = qualname


def test_two_functions_of_one_name_at_module_level_are_refused_with_both_places() -> None:
    """Runs are found by name, so a name means one function."""
    registry: Registry[Entry] = Registry("step")
    registry.add(Entry("charge", "shop.cards", "charge"))
    with pytest.raises(DuplicateName, match=r"shop\.cards\.charge and shop\.bank\.charge.*@step\(name="):
        registry.add(Entry("charge", "shop.bank", "charge"))
    assert registry["charge"].module == "shop.cards"


def test_two_functions_of_one_name_in_one_scope_are_refused() -> None:
    """The same mistake inside a function."""
    registry: Registry[Entry] = Registry("step")
    registry.add(Entry("charge", "shop", "make.<locals>.one"))
    with pytest.raises(DuplicateName):
        registry.add(Entry("charge", "shop", "make.<locals>.two"))


def test_a_function_defined_again_takes_the_place_of_the_one_before() -> None:
    """A notebook cell that is run twice, a module that is reloaded."""
    registry: Registry[Entry] = Registry("step")
    registry.add(Entry("charge", "shop", "charge"))
    again = Entry("charge", "shop", "charge")
    registry.add(again)
    assert registry["charge"] is again
    assert list(registry) == ["charge"]
    assert len(registry) == 1


def test_a_local_function_shadows() -> None:
    """A test's own function may have any name."""
    registry: Registry[Entry] = Registry("step")
    registry.add(Entry("charge", "shop", "charge"))
    local = Entry("charge", "tests", "test_it.<locals>.charge")
    registry.add(local)
    assert registry["charge"] is local


def test_a_registry_of_given_definitions_refuses_two_of_one_name() -> None:
    """An application that lists what it serves; the same one twice is no mistake."""
    one, two = Entry("charge", "a", "charge"), Entry("charge", "b", "charge")
    assert len(Registry("step", [one, one])) == 1
    with pytest.raises(DuplicateName):
        Registry("step", [one, two])


def test_undo_gets_as_many_arguments_as_it_takes() -> None:
    """The result first, then the call's own."""

    @step
    def nothing() -> None: ...

    @step
    def everything(result: int, *args: int) -> None: ...

    @step(undo=nothing)
    def one(a: int) -> int: ...

    @step(undo=everything)
    def two(a: int, b: int) -> int: ...

    assert isinstance(one, Step)
    assert one._undo_takes == 0
    assert two._undo_takes > 2
