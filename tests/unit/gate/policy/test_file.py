"""Reading a policy's file: each problem has its place and remedy, and the shipped schema agrees with the reader."""

from __future__ import annotations

import json

import msgspec
import pytest
import yaml

from holdfast.errors import InvalidPolicy, OperatorError
from holdfast.gate.policy import expressions as policy_expressions
from holdfast.gate.policy.expressions import examine, program_of
from holdfast.gate.policy.file import PolicyFile, make_schema, schema, schema_text, seconds_of
from holdfast.gate.policy.policy import parse
from holdfast.gate.policy.shape import misfits
from tests.tables import table
from tests.unit.gate.policy.policies import EXAMPLE, NOON, PROPOSAL, RUN, file_of, policy_of

GOOD = [
    EXAMPLE,
    "version: 1\nrules: []\n",
    "{version: 1, rules: [{name: a, when: true, effect: deny}], allowlist: []}",
    "version: 1\nrules: []\ncaps: {default: {workflows: {a: {max_concurrency: 0}}}, tenants: {}}\n",
    "version: 1\nrules: [{name: a, when: 'true', effect: needs_approval, tier: high, expires_in: 1d12h}]",
    "version: 1\nrules: [{name: a, when: 'true', effect: needs_approval, two_person: true}]",
    "version: 1\nrules: [{name: a, when: 'true', effect: needs_approval, candidates: ['*']}]",
    "version: 1\nrules: [{name: a, when: 'true', effect: needs_approval, two_person: true, candidates: ['a*', 'a*']}]",
    "version: 1\nrules: [{name: a, when: 'true', effect: needs_approval, two_person: true, candidates: [ann, ben]}]",
    "version: 1\nrules: [{name: a, when: 'true', effect: needs_approval, candidates: [ann, ann]}]",
]

RULE = "version: 1\nrules:\n  - name: a\n    when: true\n    effect: needs_approval\n"

# The file, the place of the problem, and a part of its text.
MISSHAPEN = [
    ("rules: []", (1, 1), "`version` is missing"),
    ("version: 1", (1, 1), "`rules` is missing"),
    ("version: 2\nrules: []", (1, 10), "must be 1, not 2"),
    ("version: true\nrules: []", (1, 10), "must be 1, not true"),
    ("version: 1\nrules: {}", (2, 8), "`rules` must be a list, not a mapping"),
    ("version: 1\nrules: [x]", (2, 9), "must be a mapping, not 'x'"),
    ("version: 1\nrules: []\nruels: []", (3, 1), "did you mean `rules`?"),
    ("- version: 1", (1, 1), "the file must be a mapping, not a list"),
    ("version: 1\nrules: []\nallowlist: slack/post", (3, 12), "must be a list, not 'slack/post'"),
    ("version: 1\nrules: []\nallowlist: [slack]", (3, 13), "like servicenow/incident.*, not 'slack'"),
    ("version: 1\nrules: []\nallowlist: [a/b/c]", (3, 13), "like servicenow/incident.*"),
    ("version: 1\nrules:\n  - name: a\n    when: true", (3, 5), "`effect` is missing: write one of allow, deny"),
    ("version: 1\nrules:\n  - {name: a, when: true, effect: alow}", (3, 35), "must be one of allow, deny"),
    ("version: 1\nrules:\n  - {name: a, when: true, effect: 3}", (3, 35), "must be one of allow, deny"),
    ("version: 1\nrules:\n  - {name: '', when: true, effect: deny}", (3, 12), "text that is not empty"),
    ("version: 1\nrules:\n  - {when: true, effect: deny}", (3, 5), "`name` is missing"),
    ("version: 1\nrules:\n  - {name: a, effect: deny}", (3, 5), "`when` is missing: a CEL expression"),
    (
        "version: 1\nrules:\n  - {name: a, when: 1, effect: deny}",
        (3, 21),
        "must be text or true or false, not 1: a CEL expression",
    ),
    ("version: 1\nrules:\n  - {name: a, when: true, effect: deny, tier: low}", (3, 41), "`tier` is not known here"),
    (f"{RULE}    tier: medium", (6, 11), "must be one of high, low, med, not 'medium'"),
    (f"{RULE}    two_person: 'yes'", (6, 17), "must be true or false, not 'yes'"),
    (f"{RULE}    candidates: []", (6, 17), "not an empty list"),
    (f"{RULE}    candidates: [ann, 3]", (6, 23), "each of `candidates` must be text"),
    (f"{RULE}    candidates: [no]", (6, 18), "must be text"),
    *(
        (f"{RULE}    expires_in: {wrong}", (6, 17), "text like 4h")
        for wrong in ("4 hours", "0h", "4", "-4h", "4y", "1.5h", "999999d", "''", "h")
    ),
    ("version: 1\nrules: []\ncaps: {default: {max_concurrency: -1}}", (3, 35), "0 to 1000000000, not -1"),
    ("version: 1\nrules: []\ncaps: {default: {max_concurrency: 1.5}}", (3, 35), "a whole number"),
    ("version: 1\nrules: []\ncaps: {default: {weight: 0}}", (3, 26), "1 to 1000000, not 0"),
    ("version: 1\nrules: []\ncaps: {tenants: {a: {workflows: {b: {weight: 2}}}}}", (3, 38), "`weight` is not known"),
    ("version: 1\nrules: []\ncaps: {tenant: {}}", (3, 8), "did you mean `tenants`?"),
    ("version: 1\nrules: []\ncaps: {default: {max_runs_per_min: }}", (3, 35), "a whole number"),
]

# Problems that only the reader finds: the shape is right.
SENSELESS = [
    (file_of(("acton.writes", "allow")), (4, 12), "there is no variable `acton`: did you mean `action`?"),
    (file_of(("true && risk == 'low'", "allow")), (4, 20), "did you mean `action.risk`?"),
    (
        file_of(("action.conector == 'x'", "allow")),
        (4, 19),
        "`action` has no member `conector`: did you mean `connector`?",
    ),
    (file_of(("action['conector'] == 'x'", "allow")), (4, 19), "has no member `conector`"),
    (file_of(("run.tennant == 'x'", "allow")), (4, 16), "did you mean `tenant`?"),
    (file_of(("actor.id == 'x'", "allow")), (4, 18), "`actor` has no member `id`: there are `name`"),
    (file_of(("has(action.fileds.x)", "allow")), (4, 23), "did you mean `fields`?"),
    (file_of(("sise(action.name) > 1", "allow")), (4, 12), "did you mean `size`?"),
    (file_of(("action.name.startswith('x')", "allow")), (4, 24), "did you mean `startsWith`?"),
    (file_of((".action.writes", "allow")), (4, 12), "a name has no dot before it"),
    (file_of(("[1].exists(x, x > 0) && x > 0", "allow")), (4, 36), "there is no variable `x`"),
    (file_of(("[1].exists(action, action > 0)", "allow")), (4, 23), "has a meaning already"),
    (file_of(("", "allow")), (4, 11), "`when` is empty"),
    (file_of(("action.writes &&", "allow")), (4, 28), "is not CEL: mismatched input the end"),
    (file_of(("action.writes && )", "allow")), (4, 29), "is not CEL: mismatched input ')'"),
    ("version: 1\nrules:\n  - name: a\n    when: action.risk == (\n    effect: deny", (4, 27), "is not CEL"),
    ("version: 1\nrules:\n  - name: a\n    when: 'x == ''it'''\n    effect: deny", (4, 12), "no variable `x`"),
    ("version: 1\nrules:\n  - name: a\n    when: '''it'' == x'\n    effect: deny", (4, 22), "no variable `x`"),
    ('version: 1\nrules:\n  - name: a\n    when: "\\"\\u0041\\" == x"\n    effect: deny', (4, 26), "no variable `x`"),
    ("version: 1\nrules:\n  - name: a\n    when: |\n      true\n        && x\n    effect: deny", (6, 12), "`x`"),
    ("version: 1\nrules:\n  - name: a\n    when: >\n      true\n      && x\n    effect: deny", (6, 10), "`x`"),
    ("version: 1\nrules:\n  - name: a\n    when: true\n      && x\n    effect: deny", (5, 10), "`x`"),
    ('version: 1\nrules:\n  - name: a\n    when: "true \\\n      && x"\n    effect: deny', (5, 10), "`x`"),
    (
        file_of(("true", "allow")) + file_of(("true", "deny")).partition("rules:\n")[2],
        (6, 11),
        "line 3 is called 'r0', too",
    ),
    (f'{RULE}    candidates: [ann, "ben\\ufe0f"]', (6, 23), "a candidate is a name, without blanks around it"),
    (f"{RULE}    two_person: true\n    candidates: [ann]", (7, 17), "'ann' is the only candidate"),
    (f"{RULE}    two_person: true\n    candidates: [ann, ann]", (7, 17), "'ann' is the only candidate"),
]

# Files that are not YAML, or not the part of YAML that is allowed here.
UNREADABLE = [
    ("", (1, 1), "the file is empty"),
    ("# nothing\n", (1, 1), "the file is empty"),
    ("version: 1\nrules: [", (2, 9), "this is not YAML"),
    ("version: 1\nrules:\n\t- a", (3, 1), "this is not YAML"),
    ("version: 1\nrules:\n  - name: a: b", (3, 12), "must be in quotes"),
    ("version: 1\nversion: 1\nrules: []", (2, 1), "`version` is here for the second time"),
    ("version: 1\nrules: []\ncaps: {tenants: {no: {}}}", (3, 18), 'put the key in quotes, like "no"'),
    ("version: 1\nrules: []\ncaps: {tenants: {1: {}}}", (3, 18), 'put the key in quotes, like "1"'),
    ("version: 1\nrules: []\ncaps: &a {}\nx: *a", (4, 4), "is an alias"),
    ("version: 1\nrules:\n  - name: a\n    when: !action.writes\n    effect: deny", (4, 11), "put the text in quotes"),
    ("version: 1\nrules: []\n---\nversion: 1", (3, 1), "this is not YAML"),
    ("version: 1\nrules: []\nx: \x07", (3, 1), "a character that YAML does not allow"),
    ("version: 1\nrules: " + "[" * 40 + "]" * 40, (2, 37), "nested too deeply"),
    ("rules: []\nversion: 0x_", (2, 10), "`0x_` is not a whole number"),
    ("rules: []\nversion: 0b_", (2, 10), "`0b_` is not a whole number"),
    ("rules: []\nversion: !!int abc", (2, 10), "`abc` is not a whole number"),
    ("rules: []\nversion: !!float x", (2, 10), "`x` is not a number: if it is a text, put it in quotes"),
    ("rules: []\nversion: !!bool x", (2, 10), "`x` is not true or false"),
    ("rules: []\nversion: " + "1" * 5000, (2, 10), "too long for a whole number: the limit is 100 characters"),
    ("rules: []\nversion: 0x" + "f" * 5000, (2, 10), "too long for a whole number"),
    ("rules: []\nversion: 1" + ":59" * 3000, (2, 10), "too long for a whole number"),
    ("rules: []\nversion: 1" + ":59" * 3000 + ".5", (2, 10), "too long for a number"),
    ('version: 1\nrules: []\nallowlist: ["a/\\ud800"]', (3, 13), "no character"),
    ('version: 1\nrules: []\ncaps: {tenants: {"\\ud800": {}}}', (3, 18), "no character"),
]


@pytest.mark.parametrize("text", GOOD)
def test_a_good_file_is_taken_by_reader_and_schema(text: str) -> None:
    """The schema and the reader both accept it."""
    assert parse(text, "policy.yaml").hash.startswith("sha256:")
    assert list(misfits(yaml.safe_load(text), schema())) == []
    msgspec.convert(yaml.safe_load(text), PolicyFile)


@table(("text", "place", "problem"), MISSHAPEN + SENSELESS + UNREADABLE)
def test_a_wrong_file_is_refused_with_the_place_and_the_remedy(text: str, place: tuple[int, int], problem: str) -> None:
    """The message begins with file:line:column, and has the remedy."""
    with pytest.raises(InvalidPolicy) as raised:
        parse(text, "policy.yaml")
    here = [what for line, column, what in raised.value.problems if (line, column) == place]
    assert any(problem in what for what in here), str(raised.value)
    assert f"policy.yaml:{place[0]}:{place[1]}: " in str(raised.value)


@table("text", [text for text, _, _ in MISSHAPEN])
def test_the_schema_refuses_a_file_that_the_reader_refuses_for_its_shape(text: str) -> None:
    """The shipped schema does, and so do the structs that it was made from."""
    data = yaml.safe_load(text)
    assert list(misfits(data, schema())) != []
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(data, PolicyFile)


@pytest.mark.parametrize("text", [text for text, _, _ in SENSELESS])
def test_a_file_that_only_the_reader_refuses_has_the_right_shape(text: str) -> None:
    """The schema does not refuse it."""
    assert list(misfits(yaml.safe_load(text), schema())) == []


def test_all_problems_are_reported_at_once_in_the_order_of_the_file() -> None:
    """One try shows all that must be corrected."""
    rules = "  - {name: a, when: acton.x && foo(1), effect: alow}\n  - {name: a, when: '(', effect: deny}\n"
    text = f"version: 2\nrules:\n{rules}x: 1\n"
    with pytest.raises(InvalidPolicy) as raised:
        parse(text, "policy.yaml")
    places = [(line, column) for line, column, _ in raised.value.problems]
    assert [line for line, _ in places] == [1, 3, 3, 3, 4, 4, 5]
    assert places == sorted(places)
    assert str(raised.value).count("\n") == 6


def test_an_invalid_policy_is_an_error_for_the_operator() -> None:
    """The operator of the installation must act."""
    assert issubclass(InvalidPolicy, OperatorError)
    assert (InvalidPolicy.code, InvalidPolicy.http_status) == ("invalid_policy", 422)
    assert str(InvalidPolicy("p.yaml", [(0, 0, "it is gone")])) == "p.yaml: it is gone"


@pytest.mark.parametrize(
    ("data", "problem"),
    [(b"version: 1\n\xff", "policy.yaml:2:1: the file is not UTF-8"), (b"#" * 1_000_001, "the limit is 1000000")],
)
def test_bytes_that_are_no_text_are_refused(data: bytes, problem: str) -> None:
    """The file must be UTF-8, and not too large."""
    with pytest.raises(InvalidPolicy) as raised:
        parse(data, "policy.yaml")
    assert problem in str(raised.value)


def test_the_shipped_schema_is_made_from_the_structs() -> None:
    """A change of the shape without its schema fails here: write ``make_schema()`` to the file."""
    assert json.loads(schema_text()) == make_schema()
    assert schema_text() == json.dumps(make_schema(), indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("30s", 30), ("30m", 1800), ("4h", 14400), ("7d", 604800), ("2w", 1209600), ("1d12h", 129600)],
)
def test_durations_are_read(duration: str, seconds: int) -> None:
    """The units of the command line."""
    assert seconds_of(duration) == seconds


CALLS = {
    "size": "size('a') == 1 && 'a'.size() == 1",
    "int": "int('1') == 1",
    "uint": "uint('1') == 1u",
    "double": "double('1') == 1.0",
    "string": "string(1) == '1'",
    "bytes": "bytes('a') == b'a'",
    "bool": "bool('true')",
    "type": "type(1) == int",
    "timestamp": "timestamp('2026-05-01T12:00:00Z') == time",
    "duration": "duration('1h') < duration('2h')",
    "dyn": "dyn(1) == 1",
    "has": "has(action.fields.sum)",
    "contains": "'abc'.contains('b')",
    "startsWith": "'abc'.startsWith('a')",
    "endsWith": "'abc'.endsWith('c')",
    "matches": "'abc'.matches('b')",
    "all": "[1].all(x, x == 1)",
    "exists": "[1].exists(x, x == 1)",
    "exists_one": "[1].exists_one(x, x == 1)",
    "existsOne": "[1].existsOne(x, x == 1)",
    "map": "[1].map(x, x + 1) == [2]",
    "filter": "[1].filter(x, x > 1) == []",
    "getFullYear": "time.getFullYear() == 2026",
    "getMonth": "time.getMonth() == 4",
    "getDayOfYear": "time.getDayOfYear() == 120",
    "getDayOfMonth": "time.getDayOfMonth() == 0",
    "getDate": "time.getDate() == 1",
    "getDayOfWeek": "time.getDayOfWeek() == 5",
    "getHours": "time.getHours() == 12",
    "getMinutes": "time.getMinutes() == 0",
    "getSeconds": "time.getSeconds() == 0",
    "getMilliseconds": "time.getMilliseconds() == 0",
}


def test_every_function_that_a_rule_may_call_is_one_that_cel_has() -> None:
    """An unknown name is refused when the file is read, and not later by a denial. Each known name works."""
    assert set(CALLS) == policy_expressions.FUNCTIONS | policy_expressions.METHODS
    for name, when in CALLS.items():
        ruling = policy_of((when, "allow")).decide(PROPOSAL, RUN, NOON)
        assert ruling.effect == "allow", f"{name}: {ruling.reason}"
    for name in policy_expressions.TYPES:
        program = program_of(f"type(action.name) == {name}")
        assert program.execute({"action": {"name": ""}}) is (name == "string")


@pytest.mark.parametrize(
    ("when", "flat"),
    [
        ("action.writes", "__action_writes"),
        ('action["risk"] == "low" // why', '__action_risk == "low"'),
        ("has(action.fields.ab)", "__action_fields_has_6162"),
        ('"ab" in action.fields && true', "__action_fields_has_6162 && true"),
        ("action.fields.ab.c > 1", "__action_fields_of_6162 . c > 1"),
        ("has(action.fields.ab.c)", "has ( __action_fields_of_6162 . c )"),
        ("action.fields[actor.name] == 1", "__action_fields [ __actor_name ] == 1"),
        ('"a" + "b" in action.fields', '"a" + "b" in __action_fields'),
        ("'action.writes' == r'action.risk'", "'action.writes' == r'action.risk'"),
        ("[action].size() == 1", "[ action ] . size ( ) == 1"),
        ("has(run.tenant)", "true"),
    ],
)
def test_an_expression_is_rewritten_over_the_facts_that_it_uses(when: str, flat: str) -> None:
    """Texts stay as they are. Where the entry is not in the text, the whole map stays."""
    assert examine(when).flat == flat
