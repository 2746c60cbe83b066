"""Actions: their declarations, the proposals of their calls, and the declarations that are refused."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Cost, DidNotHappen, Happened, Receipt, action, step
from holdfast.errors import DuplicateName, InvalidFunction, NotInWorkflow
from holdfast.gate.proposals import KEY_LIMIT, Proposal, limited
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import ONCE, RetryPolicy
from holdfast.journal.quotes import MASK
from holdfast.programs.function.actions import Action
from holdfast.programs.function.placeholders import KeyTemplate, PlaceholderText, digest

PROMISE = "f00d.3"


def declared(function: Callable[..., Any] | None = None, **options: Any) -> Action[..., Any]:
    async def pay(order: dict[str, Any], cents: int = 100, *, token: str = "none") -> str:
        return "paid"

    made: Action[..., Any] = action(**{"connector": "bank", "operation": "pay", **options})(function or pay)
    return made


def proposed(definition: Action[..., Any], *args: Any, **kwargs: Any) -> Proposal:
    return definition.proposal_of(definition.arguments(definition.signature.write(args, kwargs)), PROMISE)


ORDER = {"id": "o-7", "lines": [1, 2], "to": {"name": "Ann", "zip": None}}


# -- templates ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{order.id}", "o-7"),
        ("{order.to.name} {order.id}!", "Ann o-7!"),
        ("{cents}", "100"),
        ("{order.lines}", "[1,2]"),
        ("{order.to}", '{"name":"Ann","zip":null}'),
        ("{order.to.zip}", "null"),
        ("{order.nothing}", "null"),
        ("{order.id.deeper}", "null"),
        ("{{{order.id}}}", "{o-7}"),
        ("{{}}", "{}"),
        ("{promise}", PROMISE),
        ("{order_hash}", digest(ORDER)),
        ("{order.lines_hash}", digest([1, 2])),
        ("{cents_hash}", digest(100)),
    ],
)
def test_a_template_is_filled_from_the_arguments(template: str, text: str) -> None:
    """By name and path, with defaults; a hash is that of the canonical form; doubled braces are plain braces."""
    assert proposed(declared(target=template), ORDER).target == text
    if template:
        found = proposed(declared(idempotency_key=template), ORDER)
        assert (found.former or found.key) == text


def test_a_hash_does_not_depend_on_the_order_of_members() -> None:
    """Two callers that write the same mapping in another order mean the same act."""
    definition = declared(idempotency_key="{order_hash}")
    assert proposed(definition, {"a": 1, "b": 2}).key == proposed(definition, {"b": 2, "a": 1}).key


def test_an_argument_that_is_called_like_a_hash_is_itself() -> None:
    """The longer name wins: nobody is surprised by a hash of something else."""

    async def pay(order: str, order_hash: str) -> None: ...

    assert proposed(declared(pay, target="{order_hash}"), "o-7", "mine").target == "mine"


def test_an_argument_that_is_called_promise_is_itself() -> None:
    """The argument wins over the call's own name."""

    async def pay(promise: str) -> None: ...

    assert proposed(declared(pay, idempotency_key="{promise}"), "mine").key == "mine"


@pytest.mark.parametrize("value", [b"\x01\xff", True, 1.5, None, "é"], ids=repr)
def test_every_value_has_a_text(value: Any) -> None:
    """A call that fits its signature can always be proposed."""

    async def pay(value: Any) -> None: ...

    expected = {b"\x01\xff": "01ff", True: "true", 1.5: "1.5", None: "null", "é": "é"}[value]
    assert proposed(declared(pay, target="{value}"), value).target == expected


@pytest.mark.parametrize("where", ["target", "idempotency_key"])
@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{nothing}", r"names \{nothing\}, which is no argument of the action \(its arguments: order, cents, token\)"),
        ("{nothing_hash}", "is no argument"),
        ("{order", "is no template"),
        ("order}", "is no template"),
        ("{}", "the name of an argument in braces and nothing else"),
        ("{cents:d}", "nothing else"),
        ("{cents!r}", "nothing else"),
        ("{promise.id}", "is no argument"),
        ("{token}", r"names \{token\}, which is secret"),
        ("{token_hash}", "which is secret"),
        ("{token.part}", "which is secret"),
        ("{order}", "which is secret"),
        ("{order_hash}", "which is secret"),
        ("{order.card}", "which is secret"),
        ("{order.card.number}", "which is secret"),
    ],
)
def test_a_template_that_could_fail_or_tell_is_refused(where: str, template: str, why: str) -> None:
    """At the declaration, not during a call; also where the named argument contains a secret."""
    with pytest.raises(InvalidFunction, match=why) as raised:
        declared(**{where: template, "secret": ["token", "order.card"]})
    assert f"action pay: {where}=" in str(raised.value)


def test_what_is_beside_a_secret_may_be_named() -> None:
    """Only the secret itself, and values that contain it, are refused."""
    definition = declared(target="{order.id}", secret=["order.card"])
    found = proposed(definition, {"id": "o-7", "card": "4111"})
    assert (found.target, found.fields["order"]) == ("o-7", {"id": "o-7", "card": MASK})


def test_templates_of_no_arguments_say_so() -> None:
    """The message lists the arguments."""
    with pytest.raises(InvalidFunction, match="its arguments: none"):
        PlaceholderText("{x}", [], [], "target=")


# -- keys --------------------------------------------------------------------------------------------------------------


def test_the_default_key_is_the_calls_own() -> None:
    """The same for every attempt of one call, different for each call. Names with braces are used unchanged."""
    key = proposed(declared(), ORDER).key
    assert key.rpartition(":")[0] == f"bank:pay:{PROMISE}"
    assert proposed(declared(), ORDER).key == key
    assert proposed(declared(operation="pay {now}"), ORDER).key.rpartition(":")[0] == f"bank:pay {{now}}:{PROMISE}"


def test_the_default_key_names_the_call_whatever_its_arguments_are_called() -> None:
    """An argument called promise must not replace the call's own name: two calls would count as one."""

    async def keep(promise: str) -> None: ...

    key = proposed(declared(keep, name="keep"), "to be good").key
    assert key.rpartition(":")[0] == f"bank:pay:{PROMISE}"


def test_the_default_key_is_over_what_was_given_alone() -> None:
    """Newer code may have other defaults, and must find the receipt of an attempt of older code."""
    definition = declared()
    given = {"order": ORDER}
    key = definition.proposal_of(definition.with_defaults(given), PROMISE, given).key
    asked = cbor2.dumps(given, canonical=True)
    assert key == f"bank:pay:{PROMISE}:{hashlib.sha256(asked).hexdigest()[:12]}"


def test_another_call_at_the_same_place_has_another_default_key() -> None:
    """A retried run takes another path: its call at a position must not be taken for the earlier call there."""
    keys = {proposed(declared(), {**ORDER, "id": id}).key for id in ("o-7", "o-8")}
    assert len(keys) == 2
    assert len({key.rpartition(":")[0] for key in keys}) == 1


@pytest.mark.parametrize(
    ("options", "id"),
    [
        ({"idempotency_key": "{order.id}"}, ""),
        ({"idempotency_key": "{order.id}"}, "a\0b"),
        ({"target": "{order.id}"}, "\0"),
    ],
)
def test_a_key_or_target_that_no_store_can_keep_is_refused(options: dict[str, str], id: str) -> None:
    """All acts would share an empty key; PostgreSQL keeps no NUL."""
    with pytest.raises(InvalidFunction, match=r"its key is empty, or its key or target has a NUL"):
        proposed(declared(**options), {"id": id})


def test_a_long_key_is_cut_and_stays_unique() -> None:
    """Stores keep keys in an index: a long key is cut, and the hash of the whole is added."""
    definition = declared(idempotency_key="{order.id}")
    exact, long, other = ("x" * KEY_LIMIT, "x" * (KEY_LIMIT + 1), "x" * KEY_LIMIT + "y")
    keys = [proposed(definition, {"id": text}).key for text in (exact, long, other)]
    assert keys[0] == exact
    assert [len(key) for key in keys] == [KEY_LIMIT] * 3
    assert len(set(keys)) == 3
    assert keys[1].endswith(hashlib.sha256(long.encode()).hexdigest())


DIFFERENT = [
    1, "1", 1.0, True, "true", "True", None, "null", "None", "", b"1", "31", -1, "-1", [1], "[1]", {"a": 1}, '{"a":1}',
    1.5, "1.5", "01", [], "[]", "a", " a", "a~0123456789abcdef",
]  # fmt: skip


def test_different_values_have_different_keys() -> None:
    """Also where they are written alike."""
    template = KeyTemplate("order:{order}", ["order"], [], "key")
    keys = [template.render_key({"order": value}, PROMISE)[0] for value in DIFFERENT]
    assert len(set(keys)) == len(DIFFERENT)
    marked = template.render_key({"order": "1"}, PROMISE)[0]
    assert template.render_key({"order": marked.removeprefix("order:")}, PROMISE)[0] != marked


@pytest.mark.parametrize("value", [7, -7, "o-7", "INC-7", "true", "", "007 a", "a:b", "~", "é", "7a", "x" * 600])
def test_ordinary_texts_and_numbers_have_the_key_that_they_always_had(value: Any) -> None:
    """Receipts are found by it."""
    template = KeyTemplate("order:{order}:", ["order"], [], "key")
    key, former = template.render_key({"order": value}, PROMISE)
    assert former is None
    assert key == limited(f"order:{value}:")


VALUES = st.one_of(
    st.text(alphabet="a:1-~", max_size=4),
    st.integers(-12, 12),
    st.sampled_from([None, True, False, 1.0, b"1", "true", "null", [1], "[1]"]),
)


TWO_PLACES = ["{a}:{b}", "k:{a}::{b}", "{a}-{b}-{c}", "{a}{b}", "{a}a{b}:", "{{{a}}}:{b}", "{a}:{a}"]


@pytest.mark.parametrize("text", TWO_PLACES)
@given(one=st.tuples(VALUES, VALUES, VALUES), other=st.tuples(VALUES, VALUES, VALUES))
def test_no_two_lists_of_values_share_a_key(text: str, one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    """For all values, and for every place of the border between two of them."""
    names = [name for name in "abc" if f"{{{name}}}" in text]
    template = KeyTemplate(text, names, [], "key")
    given_one, given_other = (dict(zip(names, values, strict=False)) for values in (one, other))
    same = canonical(list(given_one.values())) == canonical(list(given_other.values()))
    keys = [template.render_key(given, PROMISE)[0] for given in (given_one, given_other)]
    assert (keys[0] == keys[1]) == same


def test_what_an_older_version_did_under_its_key_is_known_by_what_it_recorded() -> None:
    """A text and an equal number had the same key; the receipt shows which of them it was made from."""
    definition = declared(idempotency_key="order:{order}")
    found = proposed(definition, "1")
    assert found.former == "order:1"
    assert definition.has_key(found.key, {"order": "1"}, PROMISE)
    assert not definition.has_key(found.key, {"order": 1}, PROMISE)
    assert definition.has_key(found.key, {"another": 1}, PROMISE)  # unknown: it must not be done twice


# -- declarations ------------------------------------------------------------------------------------------------------


def test_a_proposal_says_all_that_was_declared() -> None:
    """Arguments by name with their defaults, secrets masked."""

    @action(connector="bank", operation="refund")
    async def refund(receipt: Receipt) -> None: ...

    found = proposed(
        declared(
            target="order {order.id}", secret="token", reverse=refund, cost_estimate=2, risk="high", name="shop.pay"
        ),
        ORDER,
        token="s3cret",
    )
    assert found == Proposal(
        "shop.pay",
        "bank",
        "pay",
        "order o-7",
        {"order": ORDER, "cents": 100, "token": MASK},
        cbor2.dumps({"order": ORDER, "cents": 100, "token": MASK}, canonical=True),
        True,
        "high",
        f"bank:pay:{PROMISE}:{hashlib.sha256(found.request).hexdigest()[:12]}",
        "refund",
        2.0,
    )


@pytest.mark.parametrize(
    ("options", "risk", "safe"),
    [
        ({}, "med", False),
        ({"writes": False}, "low", True),
        ({"risk": "low"}, "low", False),
        ({"writes": False, "risk": "high"}, "high", True),
        ({"safe_to_retry": True}, "med", True),
        ({"writes": False, "safe_to_retry": False}, "low", False),
    ],
    ids=str,
)
def test_risk_and_repetition_follow_from_writing_unless_they_are_given(
    options: dict[str, Any], risk: str, safe: bool
) -> None:
    """Writing is of medium risk and not safe to repeat; reading is of low risk, and safe."""
    definition = declared(**options)
    assert (definition.risk, definition.safe_to_retry) == (risk, safe)


def test_an_action_is_tried_once_unless_it_says_otherwise() -> None:
    """As a step is."""
    assert declared().retry == ONCE
    assert declared(retries=2).retry == RetryPolicy(max_attempts=3)
    assert declared(retry=RetryPolicy(max_attempts=7)).retry.max_attempts == 7


async def _other(order: dict[str, Any], cents: int) -> None: ...


@step(name="actions.some_step")
async def _some_step(receipt: Receipt) -> None: ...


@action(connector="bank", operation="refund", name="actions.no_receipt")
async def _no_receipt(order: str) -> None: ...


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"connector": ""}, "connector= and operation= say what it does"),
        ({"operation": ""}, "connector= and operation= say what it does"),
        ({"risk": "extreme"}, "risk is low, med or high, not 'extreme'"),
        ({"reverse": _some_step}, "reverse= is an action"),
        ({"reverse": _no_receipt}, "first argument is a Receipt: actions.no_receipt takes none"),
        ({"probe": _other}, "probe= takes the same arguments as the action"),
        ({"probe": "look"}, "probe= is a function of the same arguments"),
        ({"cost_estimate": -1}, "cost_estimate= is 0 or more"),
        ({"cost_estimate": "3"}, r"cost_estimate= is a number such as 0\.03, not '3'"),
        ({"cost_estimate": float("nan")}, "cost_estimate= is a number"),
        ({"cost_estimate": None}, "cost_estimate= is a number"),
        ({"cost": 3}, r"cost= is a function of the result: write cost=lambda result: Cost\("),
        ({"cost": Cost("openbank", 3)}, "cost= is a function"),
        ({"idempotency_key": ""}, "idempotency_key= is a template such as .*: leave it out"),
        ({"idempotency_key": " "}, "idempotency_key= is a template"),
        ({"idempotency_key": 7}, "idempotency_key= is a template"),
        ({"secret": ["password"]}, "secret= names 'password', which is no argument"),
        ({"retries": -1}, "retries is 0 or more"),
        ({"retries": 1, "retry": ONCE}, "not both"),
        ({"timeout": 0}, "more than 0 seconds"),
        ({"undo": _other}, "undo is a step"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_declaration_that_cannot_hold_is_refused(options: dict[str, Any], why: str) -> None:
    """At the decorator, with a message that names the remedy."""
    with pytest.raises(InvalidFunction, match=why):
        declared(**options)


def test_an_action_without_parentheses_is_refused() -> None:
    """The message shows the right form: a step may be decorated like this, but an action must declare its effect."""
    bare: Any = action

    with pytest.raises(InvalidFunction, match=r'action pay: write @action\(connector="…", operation="…"\) above it'):

        @bare
        async def pay(order: str) -> None: ...


def test_a_probe_takes_the_arguments_of_its_action() -> None:
    """The same names in the same order: it is called as the action was."""

    async def look(order: dict[str, Any], cents: int = 100, *, token: str = "none") -> Happened | DidNotHappen:
        return DidNotHappen()

    definition = declared(probe=look)
    assert definition.probe is not None
    assert definition.probe.function is look


def test_two_actions_of_one_name_are_refused() -> None:
    """Runs find them by name; an action and a step share the names."""

    @action(connector="bank", operation="pay", name="actions.taken")
    async def first() -> None: ...

    with pytest.raises(DuplicateName, match=r"called 'actions\.taken'"):

        @action(connector="bank", operation="pay", name="actions.taken")
        async def second() -> None: ...

    with pytest.raises(DuplicateName):

        @step(name="actions.taken")
        async def third() -> None: ...


def test_an_action_called_outside_a_workflow_is_refused() -> None:
    """It would go around the gate. The function itself can be tested."""
    definition = declared()

    async def main() -> str:
        with pytest.raises(NotInWorkflow, match=r"only a workflow can call it.*pay\.function\(…\)"):
            await definition(ORDER)
        result: str = await definition.function(ORDER)
        return result

    assert asyncio.run(main()) == "paid"


def test_an_action_called_by_a_step_is_refused() -> None:
    """A step runs outside the workflow: no gate would judge its action."""
    definition = declared()

    @step(name="actions.sneaky")
    async def sneaky() -> Any:
        return await definition(ORDER)

    with pytest.raises(NotInWorkflow):
        asyncio.run(sneaky.function())


@pytest.mark.parametrize(
    ("function_defaults", "given_", "expected"),
    [((1, 2), (), {"a": 1, "b": 2}), ((1, 2), (5,), {"a": 5, "b": 2}), ((None, b"x"), (), {"a": None, "b": b"x"})],
)
def test_defaults_are_arguments_too(
    function_defaults: tuple[Any, Any], given_: tuple[Any, ...], expected: dict[str, Any]
) -> None:
    """Policy sees the arguments that the function will get, from any version of the code."""

    async def pay(a: Any = function_defaults[0], b: Any = function_defaults[1]) -> None: ...

    definition = declared(pay)
    assert definition.arguments(definition.signature.write(given_, {})) == expected


def test_arguments_beyond_the_named_ones_are_seen() -> None:
    """Rest and keywords go under their own names."""

    async def pay(order: str, *rest: int, **more: str) -> None: ...

    found = proposed(declared(pay), "o-7", 1, 2, note="n")
    assert found.fields == {"order": "o-7", "rest": [1, 2], "more": {"note": "n"}}


def test_what_an_act_cost_is_told_by_its_provider() -> None:
    """A plain value, in the provider's own currency."""
    assert Cost("openbank", 0.25) == Cost(provider="openbank", amount=0.25, model="", currency="USD")


def test_a_default_that_is_no_data_is_refused() -> None:
    """Such a value could not be shown."""

    async def pay(client: Any = object()) -> None: ...  # noqa: B008  # the mistake

    with pytest.raises(Exception, match="cannot be stored as data"):
        declared(pay)


def test_the_digest_is_of_canonical_bytes() -> None:
    """32 hexadecimal digits, the same in every process."""
    assert digest([1, 2]) == hashlib.sha256(cbor2.dumps([1, 2], canonical=True)).hexdigest()[:32]
