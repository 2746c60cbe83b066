"""The format as a JSON Schema, for editors and for the reference: every word with what it means.

It says what a document looks like. Whether names, types and paths make sense is said by the compiler alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.expressions.functions import GLOBALS, METHODS, NAMESPACES
from holdfast.journal.error_classes import CLASSES
from holdfast.programs.definition.compiler.schedule_schema import SCHEDULE
from holdfast.programs.definition.compiler.schema_examples import EXAMPLES
from holdfast.programs.definition.compiler.words import GRAPH_WORDS, NODE_WORDS, VERB_WORDS
from holdfast.programs.definition.model import FORMAT
from holdfast.transports import schemas

Schema = dict[str, Any]

ID: Final = "urn:holdfast:definition:1"


def _ref(name: str, words: str = "") -> Schema:
    return {"$ref": f"#/$defs/{name}", **({"description": words} if words else {})}


def _text(words: str) -> Schema:
    return {"type": "string", **({"description": words} if words else {})}


def _list(items: Schema, words: str) -> Schema:
    return {"type": "array", "items": items, **({"description": words} if words else {})}


def _map(values: Schema, words: str) -> Schema:
    return {"type": "object", "additionalProperties": values, "description": words}


def _object(words: str, required: tuple[str, ...] = (), /, **members: Schema) -> Schema:
    found: Schema = {
        "type": "object",
        "properties": {name.rstrip("_"): schema for name, schema in members.items()},
        "additionalProperties": False,
        **({"description": words} if words else {}),
    }
    return {**found, "required": list(required)} if required else found


def _either(words: str, *schemas: Schema) -> Schema:
    return {"anyOf": list(schemas), **({"description": words} if words else {})}


def _request(words: str, schema: Mapping[str, Any]) -> Schema:
    expression = {"type": "string", "pattern": "^=", "description": "An expression for all of it."}
    return {"description": words, "anyOf": [*schema["anyOf"], expression]}


_IN_NAMESPACES: Final = [f"{space}.{name}" for space, names in NAMESPACES.items() for name in names]
_FUNCTIONS: Final = sorted({*GLOBALS, *(f".{name}" for name in METHODS), *_IN_NAMESPACES})
_CALLS: Final = f"Expressions call {', '.join(f'{name}()' for name in _FUNCTIONS)}."
_VALUE: Final = f"Any value. A text that begins with `=` is an expression, `==x` is the text `=x`. {_CALLS}"
_NODES: Final = _ref("nodes")

_COMMON: Final[dict[str, Schema]] = {
    "title": _text("What people see instead of the node's name."),
    "when": _ref("condition", "Where it is false, the node is skipped."),
    "as": _ref("path", "Where the result is kept, if the node succeeds."),
    "retry": _either("How often it is tried: a name of `retries`, or the policy.", _text("A name."), _ref("retry")),
    "timeout": _either(
        "How long it may take with all its attempts, or a limit for each (`try`), for all, or a time (`at`).",
        _ref("span"),
        _object(
            "",
            try_=_ref("span", "The limit of each attempt."),
            all=_ref("span", "The limit of all of them."),
            at=_ref("value", "A time, such as 2030-01-31T09:00:00Z."),
        ),
    ),
    "on": _object(
        "What is done when the node is over. An empty list means that a failure is ignored.",
        success=_ref("nodes", "Where it went well."),
        failure=_ref("nodes", "With `error` in expressions. It goes on behind the node."),
        timeout=_ref("nodes", "In place of `failure`, where it took too long."),
    ),
    "undo": _either(
        "What takes it back, when the run fails later or is cancelled.",
        _text("An action, which gets the result and the arguments of the call."),
        *(
            _object(
                "A call, with `result` in expressions. Without `with` it gets the result and the call's arguments.",
                (verb,),
                **{verb: _text(f"The {verb}."), "with_": _ref("value", "Its arguments, by name.")},
            )
            for verb in ("action", "step")
        ),
        *(
            _object("A request, with `result` in expressions.", (verb,), **{verb: {"type": "object"}})
            for verb in ("http", "graphql", "transport")
        ),
    ),
    "needs": _list(_text(""), "Nodes of the graph that must have succeeded, or been skipped, before."),
    "after": _list(_text(""), "Nodes of the graph that must be over before, however they ended."),
}

_VERBS: Final[dict[str, Schema]] = {
    "action": _text("Call a Python action, which passes the gate."),
    "check": _ref("value", "Fail where this does not fit the JSON Schema of `schema`, with the code `MISFIT`."),
    "compensate": _text("Undo what this node did."),
    "continue": _ref("workflow", "Start another run, and wait for nothing. The result is its id."),
    "do": _ref("nodes", "Nodes as one, for a time-out or a handler around them."),
    "end": _ref("value", "End the run with this result."),
    "fork": _map(_NODES, "Branches that run side by side. Each sees the state at the fork and its own writes."),
    "graph": _map(_ref("graph_node"), "Nodes that run by their `needs`, side by side where these allow it."),
    "graphql": _request(
        "Ask a GraphQL service: by `endpoint` and `query`, or by `call: connector.operation`.", schemas.GRAPHQL
    ),
    "http": _request("Make a request: `get: https://…`, or `call: connector.operation`.", schemas.HTTP),
    "pick": _map(_ref("option"), "Wait for several things. The first wins, the others are cancelled."),
    "raise": _either(
        "Fail with an error of one's own.",
        _text("Its code."),
        _object(
            "",
            ("code",),
            code=_ref("value", "What handlers read as `error.code`."),
            message=_ref("value", "What people read."),
            details=_ref("value", "Anything more: `error.details`."),
        ),
    ),
    "repeat": _object(
        "Do the nodes of `do` again.",
        over=_ref("value", "A list: one iteration for each item."),
        times=_ref("value", "A number of iterations."),
        while_=_ref("condition", "Looked at before each iteration."),
        until=_ref("condition", "Looked at after each iteration."),
        most={"type": "integer", "minimum": 1, "description": "The limit of iterations. One more is an error."},
        item=_text("What expressions call the item; `item` if not said."),
        index=_text("What expressions call the number of the iteration; `index` if not said."),
        at_once={"type": "integer", "minimum": 1, "description": "How many iterations run side by side."},
        errors={"enum": ["fail", "keep"], "description": "`keep`: a failed iteration is `{error: …}` in the result."},
    ),
    "run": _ref("workflow", "Start a child run and wait for its end."),
    "send": _object(
        "Send a signal to another run.",
        ("to", "signal"),
        to=_ref("value", "The id of a run."),
        signal=_text("Its name."),
        key=_ref("value", "Who waits for this key gets it."),
        value=_ref("value", "What it carries: `payload`."),
    ),
    "set": _map(_ref("value"), "Write values to `state.…`, `local.…` or `reference`. All see the state before."),
    "sleep": _either(
        "Wait for a while, or until a time.", _ref("span"), _object("", ("until",), until=_ref("value", "A time."))
    ),
    "step": _text("Call a Python step. Its result is kept."),
    "switch": _list(
        _either(
            "",
            _object("", ("when",), when=_ref("condition", "When it is taken."), do=_ref("nodes", "What is done then.")),
            _object("", ("else",), else_=_ref("nodes", "What is done where no case fits.")),
        ),
        "Do the first case whose condition holds.",
    ),
    "task": _text("Ask people, by a task of `tasks`. The answer is the result."),
    "transport": _map({"type": "object"}, "Call a transport of a package: `transport: {sap: {…}}`."),
    "wait": _text("Wait for a signal of this name."),
}

_PARTNERS: Final[dict[tuple[str, str], Schema]] = {
    ("action", "with"): _ref("value", "Its arguments, by name."),
    ("check", "schema"): {"type": "object", "description": "The JSON Schema."},
    ("continue", "id"): _ref("value", "The id of the run."),
    ("continue", "with"): _ref("value", "What it is started with."),
    ("do", "let"): _map(_ref("value"), "Names that only these nodes see, with their values."),
    ("fork", "gives"): _ref("value", "The value of a branch. The result has those that succeeded, by name."),
    ("fork", "join"): _either(
        "How many branches must succeed.", {"enum": ["all", "any"]}, {"type": "integer", "minimum": 1}
    ),
    ("repeat", "do"): _ref("nodes", "What is repeated."),
    ("repeat", "gives"): _ref("value", "The value of an iteration. The result is the list of them."),
    ("run", "with"): _ref("value", "What it is started with."),
    ("step", "with"): _ref("value", "Its arguments, by name."),
    ("task", "with"): _ref("value", "What its declaration reads as `input`, by name."),
    ("wait", "key"): _ref("value", "Only signals that were sent with this key."),
    ("wait", "match"): _ref("condition", "Only signals (`payload`) that it holds for."),
}


def node_schema(verb: str, *more: str) -> Schema:
    """A node with this verb; ``more`` are words that its place allows."""
    partners = {word: _PARTNERS[verb, word] for word in VERB_WORDS[verb]}
    common = {word: _COMMON[word] for word in (*NODE_WORDS, *more)}
    return {
        "type": "object",
        "properties": {verb: _VERBS[verb], **partners, **common},
        "required": [verb],
        "additionalProperties": False,
        "description": _VERBS[verb]["description"],
        "examples": [EXAMPLES[verb]],
    }


def _option(verb: str) -> Schema:
    found = node_schema(verb)
    properties = {**found["properties"], "do": _ref("nodes", "What is done when it was the first.")}
    return {**found, "properties": properties}


def _task() -> Schema:
    people = {
        word: _either(f"{what}: a list of names, or an expression for one.", _list(_text(""), ""), _text(""))
        for word, what in (("groups", "Groups"), ("users", "Persons"), ("exclude", "Who may not, whatever else holds"))
    }
    return _object(
        "A task for people.",
        title=_ref("value", "Its heading."),
        description=_text("What it is about."),
        for_=_object("Who may answer: everybody where nobody is named, but nobody of `exclude`.", **people),
        show=_ref("value", "What they see beside the form."),
        form={"type": "object", "description": "The JSON Schema of the answer."},
        check=_list(
            _object(
                "",
                ("when", "say"),
                when=_ref("condition", "Where it holds, the answer is refused."),
                say=_text("The reason."),
                at=_text("The field, as a JSON pointer: /decision."),
            ),
            "Where `when` holds over the answer (`payload`), it is refused.",
        ),
        due=_either(
            "By when it is to be answered.",
            _ref("span"),
            _object(
                "",
                in_=_ref("span", "How long it may take."),
                remind=_list(_ref("span"), "When people are reminded."),
                escalate=_object("Who may answer as well, once it is due.", (), **people),
                expire=_ref("span", "When it is over, as a time-out."),
            ),
        ),
    )


def _shared() -> Schema:
    """What several places of the format have in common."""
    nodes = {
        "type": "array",
        "description": "Nodes, one after the other: each is a map of its name to its body.",
        "items": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "propertyNames": {"pattern": r"^[A-Za-z_][\w-]{0,99}$"},
            "additionalProperties": _ref("node"),
        },
    }
    return {
        "value": {"description": _VALUE},
        "condition": {
            "anyOf": [{"type": "string", "pattern": "^="}, {"type": "boolean"}],
            "description": f"An expression that is true or false. {_CALLS}",
        },
        "span": {"type": "string", "description": "A duration: 90s, 2h, 1h30m, 10d, PT30M; or an expression for one."},
        "path": {
            "type": "string",
            "pattern": r"^(state|local)(\.[A-Za-z_][\w-]*)+$|^reference$",
            "description": "A place: `state.…`, `local.…` or `reference`.",
        },
        "workflow": _either(
            "A workflow: name, name@3 or name@^2.",
            _text(""),
            _object(
                "As it was resolved, in canonical forms.",
                ("name",),
                name=_text("Its name."),
                version={"type": "integer", "minimum": 1, "description": "Its version."},
                digest=_text("The digest of its canonical form."),
            ),
        ),
        "retry": _object(
            "How often, and how patiently, something is tried.",
            max={"type": "integer", "minimum": 1, "description": "The number of attempts."},
            first=_ref("span", "The delay after the first."),
            factor={"type": "number", "minimum": 1, "description": "How much longer each delay is than the last."},
            cap=_ref("span", "The longest delay."),
            jitter=_either(
                "How much a delay is moved by chance.",
                {"enum": ["full", "none"]},
                {"type": "number", "minimum": 0, "maximum": 1},
            ),
            on=_list({"enum": list(CLASSES)}, "After which classes of errors; after all if not said."),
        ),
        "nodes": nodes,
        "node": {"oneOf": [node_schema(verb) for verb in VERB_WORDS]},
        "graph_node": {"oneOf": [node_schema(verb, *GRAPH_WORDS) for verb in VERB_WORDS]},
        "option": {"oneOf": [_option(verb) for verb in VERB_WORDS if verb not in ("do", "repeat")]},
        "task": _task(),
    }


def _trial() -> Schema:
    signal = _object(
        "A signal that is sent.",
        ("name",),
        name=_text("Its name."),
        value=_ref("value", "What it carries."),
        key=_ref("value", "Its key."),
        after=_ref("span", "When, after the start."),
        by=_text("Who sends it."),
    )
    answer = _object(
        "An answer to a task.",
        ("task", "value"),
        task=_text("The task's name."),
        value=_ref("value", "The answer."),
        by=_text("Who answers."),
        groups=_list(_text(""), "The groups that they are in."),
    )
    statuses = ["completed", "failed", "cancelled", "waiting", "parked"]
    expect = _object(
        "What must have come of it. What is left out is not looked at.",
        status={"enum": statuses, "description": "How it ended."},
        result=_ref("value", "What it gave."),
        state=_map(_ref("value"), "Members of its state."),
        error=_map(_ref("value"), "Members of its error: class, code, message, node."),
        reference=_text("Its business reference."),
        done=_list(_text(""), "Nodes that succeeded."),
        skipped=_list(_text(""), "Nodes that were skipped."),
        waits=_list(_text(""), "The nodes at which it waits."),
    )
    return _object(
        "",
        name=_text("What it shows."),
        start=_ref("value", "What the run is started with."),
        mock=_map(
            _ref("value"), "The results of calls, by node: a value, `{raise: {class: …, code: …}}` or `{each: […]}`."
        ),
        signals=_list(signal, "Signals, in order: `name`, `value`, `key`, `after`, `by`."),
        answers=_list(answer, "Answers, given when their task asks: `task`, `value`, `by`, `groups`."),
        expect=expect,
    )


TRIALS: Final = _list(_trial(), "Tests of it, which `holdfast def test` plays.")


def definition_schema() -> Schema:
    """The schema of a whole document."""
    schema = _object(
        "A workflow as data.",
        ("holdfast", "name", "version", "steps"),
        holdfast={"const": FORMAT, "description": "The format."},
        name=_text("What runs of it are started by."),
        version={
            "type": "integer",
            "minimum": 1,
            "description": "A changed definition gets a new one.",
        },
        title=_text("What people see instead of its name."),
        description=_text("What it is for."),
        language={"enum": ["cel", "jq"], "description": "The language of its expressions; `cel` if not said."},
        reference=_ref("value", "The business reference, such as the number of a claim."),
        schedule=SCHEDULE,
        start={"type": "object", "description": "The JSON Schema of what it is started with."},
        state=_map({"type": ["object", "string"]}, "The JSON Schema of each member of its state, with its `default`."),
        uses=_object(
            "What it calls from outside. It is filled in when the definition is accepted.",
            steps=_list(_text(""), "Python steps."),
            actions=_list(_text(""), "Python actions."),
            workflows=_list(_text(""), "Workflows, with a range of versions: `letters.send@^2`."),
            transports=_list(_text(""), "Transports."),
        ),
        retries=_map(_ref("retry"), "Retry policies that nodes name."),
        tasks=_map(_ref("task"), "Tasks that nodes ask."),
        connectors={"description": "What `http` and `graphql` call by name.", **schemas.CONNECTORS},
        cleanup_timeout=_text(
            "How long a run that fails or is cancelled waits for its children before it undoes what it did: a fixed "
            "duration. Without it, it waits until they have ended, or a person says `holdfast cancel --leave-children`."
        ),
        steps=_ref("nodes", "What is done, one node after the other."),
        migrate=_map(
            _object(
                "How runs of one older version move to this one.",
                steps=_map(
                    _text("A node of this version, or the path to it."), "The successors of older nodes, by name."
                ),
                set=_map(_ref("value"), "What a move writes to state. It reads `start` and `state`."),
            ),
            "How runs of older versions move to this one, by version.",
        ),
        tests=TRIALS,
        inline={"type": "object", "description": "Definitions that it runs, in its canonical form only."},
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": ID, **schema, "$defs": _shared()}
