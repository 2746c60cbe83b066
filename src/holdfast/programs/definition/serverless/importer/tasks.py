"""What every task may have: a condition, input, output, export, schemas, a time-out; around what its kind does.

A task is one node. Where nothing is around it, that is what its kind does; else it is a block::

    pay:
      let: {input: =.amount}                       # $input, where it is read or made from the data
      when: =.due                                  # if
      do:
        - pay-fits-in: {check: =., schema: {…}}    # input.schema
        - pay-take: {set: {local.data: =$input}}   # input.from
        - pay-do: {…}                              # what its kind does
        - pay-give: {set: {local.data: =.id}}      # output.as
        - pay-fits-out: {check: =., schema: {…}}   # output.schema
        - pay-export: {set: {state.context: =.}}   # export.as
        - pay-then: {end: =.}                      # then
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.programs.definition.compiler.faults import Trail, shown
from holdfast.programs.definition.serverless.importer.draft import ImportDraft, Node
from holdfast.programs.definition.serverless.importer.values import (
    Reads,
    expression,
    literal,
    reads_in,
    span_of,
    value_of,
)
from holdfast.programs.definition.serverless.importer.ways import ends
from holdfast.programs.definition.serverless.vocabulary import STARTED, VALIDATION, pointer

BASE: Final = ("if", "input", "output", "export", "timeout", "then", "metadata")
ROOTS: Final = ("start", "state", "local", "run", "nodes", "now")
_UNKNOWN: Final = {"secrets": "secrets stand in a connector of a definition", "authorization": "calls keep no tokens"}


class TaskDraft:
    """One task on its way to a node."""

    def __init__(self, draft: ImportDraft, name: str, task: dict[str, Any], trail: Trail, *, within_fork: bool) -> None:
        self.draft = draft
        self.task = task
        self.trail = trail
        self.within_fork = within_fork
        self.said_name = name
        self.name = draft.task_name(name, trail)
        self.needs_input = False
        self.reads: Reads = set()

    # -- for what its kind does ----------------------------------------------------------------------------------------

    def wrong(self, message: str, *inside: str | int) -> None:
        self.draft.wrong((*self.trail, *inside), message)

    def helper(self, suffix: str) -> str:
        """The name of a node that belongs to this task."""
        return self.draft.helper_name(f"{self.name}-{suffix}", self.trail)

    def value(self, value: Any) -> Any:
        """A value of the document in the words of the format."""
        return self.noted(value_of(value, loose=self.draft.loose))

    def expression(self, data: Any, *inside: str | int) -> str:
        """An expression, in the words of the format."""
        if not isinstance(data, str):
            self.wrong(f"this is an expression, not {shown(data)}", *inside)
            return "=null"
        return str(self.noted(f"={expression(data)}"))

    def filter(self, data: Any) -> Any:
        """What ``from`` and ``as`` say: an expression, or a value with some."""
        return self.expression(data) if isinstance(data, str) else self.value(data)

    def span(self, data: Any, *inside: str | int) -> str:
        try:
            return str(self.noted(span_of(data)))
        except ValueError as error:
            self.wrong(str(error), *inside)
            return "0s"

    def name_of(self, data: Any, *inside: str | int) -> str:
        """A name that is bound for expressions."""
        if isinstance(data, str) and data.isidentifier() and data not in ROOTS:
            return data
        self.wrong(
            f"`{data}` cannot be bound here: it is no name, or means something else ({', '.join(ROOTS)})", *inside
        )
        return "item"

    def noted(self, value: Any) -> Any:
        """The value. What its expressions read is noted for the task."""
        found = reads_in(value)
        self.reads |= found
        self.draft.reads |= found
        for name, why in _UNKNOWN.items():
            if any(read[0] == name for read in found):
                self.wrong(f"${name} is not there: {why}")
        return value

    # -- what is around it ---------------------------------------------------------------------------------------------

    def node(self, core: list[Node], then: list[Node] | None = None) -> Node:
        """The task's node. ``core`` is what its kind does; ``then`` where it goes on, if not behind it."""
        before, behind = self._before(), self._behind()
        if ends(core):
            behind, then = [], None
        outer = self._outer()
        names = {read[0] for read in self.reads}
        needs_input = self.needs_input or "input" in names or any("take" in name for node in before for name in node)
        let = {**self._input(needs_input), **self._about()}
        if not (before or behind or then or let) and len(core) == 1:
            ((_, body),) = core[0].items()
            return {self.name: {**body, **outer}}
        return {self.name: {"do": [*before, *core, *behind, *(then or [])], **({"let": let} if let else {}), **outer}}

    def core_name(self) -> str:
        """What the node of its kind is called: the task's own name goes to the block, where there is one."""
        return self.helper("do")

    def _outer(self) -> dict[str, Any]:
        found: dict[str, Any] = {} if self.said_name == self.name else {"title": self.said_name}
        if "if" in self.task:
            found["when"] = self.expression(self.task["if"], "if")
        timeout = self.draft.reused("timeouts", self.task.get("timeout"), (*self.trail, "timeout"))
        if timeout is not None:
            after = self.draft.mapping(timeout, (*self.trail, "timeout")).get("after")
            found["timeout"] = self.span(after, "timeout", "after")
        return found

    def _input(self, needed: bool) -> dict[str, Any]:
        given = self.draft.mapping(self.task.get("input"), (*self.trail, "input"))
        if "from" in given:
            return {"input": self.filter(given["from"])}
        return {"input": "=."} if needed else {}

    def _about(self) -> dict[str, Any]:
        """``$task``, as far as it is read."""
        about = {
            "name": literal(self.said_name),
            "reference": pointer(self.trail),
            "definition": literal(self.task),
            "input": "=.",
            "startedAt": STARTED,
        }
        return members_read("task", about, self.reads)

    def _before(self) -> list[Node]:
        given = self.draft.mapping(self.task.get("input"), (*self.trail, "input"))
        self.draft.only(given, ("schema", "from"), (*self.trail, "input"), "input")
        found = self.check(given.get("schema"), "in", "input")
        return [*found, *([{self.helper("take"): put("=$input")}] if "from" in given else [])]

    def _behind(self) -> list[Node]:
        given = self.draft.mapping(self.task.get("output"), (*self.trail, "output"))
        self.draft.only(given, ("schema", "as"), (*self.trail, "output"), "output")
        found = [{self.helper("give"): put(self.filter(given["as"]))}] if "as" in given else []
        found += self.check(given.get("schema"), "out", "output")
        return found + self._export()

    def _export(self) -> list[Node]:
        given = self.draft.mapping(self.task.get("export"), (*self.trail, "export"))
        self.draft.only(given, ("schema", "as"), (*self.trail, "export"), "export")
        if not given:
            return []
        self.draft.exports = True
        value = self.filter(given["as"]) if "as" in given else "=."
        if ("output",) in self.reads or any(read[0] == "output" for read in self.reads):
            value = f"=. as $output | {value[1:]}" if isinstance(value, str) else value
        node = {self.helper("export"): {"set": {"state.context": value}}}
        return [node, *self.check(given.get("schema"), "context", "export", value="=$context")]

    def check(self, schema: Any, suffix: str, *inside: str, value: str = "=.") -> list[Node]:
        """The nodes that hold a value against a schema of the document."""
        found = document_of(self.draft, schema, (*self.trail, *inside, "schema"))
        if found is None:
            return []
        misfit = {self.helper(f"misfit-{suffix}"): misfit_raise(pointer(self.trail))}
        return [{self.helper(f"fits-{suffix}"): {"check": value, "schema": found, "on": {"failure": [misfit]}}}]


def put(value: Any) -> dict[str, Any]:
    """A node's body that makes a value the data."""
    return {"set": {"local.data": value}}


def misfit_raise(instance: str) -> dict[str, Any]:
    """What is raised where a value does not fit a schema of the document."""
    details = {
        "type": VALIDATION,
        "status": 400,
        "title": "Validation Error",
        "detail": "=$error.message",
        "instance": instance,
    }
    return {"raise": {"code": VALIDATION, "message": "=$error.message", "details": details}}


def document_of(draft: ImportDraft, schema: Any, trail: Trail) -> dict[str, Any] | None:
    """The JSON Schema that a document declares; None where there is none, or none that can be used."""
    found = draft.mapping(schema, trail)
    if not found:
        return None
    draft.only(found, ("format", "document"), trail, "a schema")
    format = found.get("format", "json")
    if not str(format).startswith("json"):
        draft.wrong((*trail, "format"), f"schemas of the format {format!r} are not supported: write JSON Schema")
        return None
    document = found.get("document")
    return draft.mapping(document, (*trail, "document")) or None


def members_read(name: str, members: dict[str, Any], reads: Reads) -> dict[str, Any]:
    """A name with those of its members that are read; nothing where none is."""
    found = [read for read in reads if read[0] == name]
    if not found:
        return {}
    if any(len(read) == 1 for read in found):
        return {name: members}
    wanted = {read[1] for read in found}
    return {name: {member: value for member, value in members.items() if member in wanted}}
