"""A whole document as a definition."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.errors import InvalidDefinition
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.checks.workflows import Workflows
from holdfast.programs.definition.compiler.compiler import compile_document, refuse, refuse_for
from holdfast.programs.definition.compiler.faults import DefinitionFault, FaultList
from holdfast.programs.definition.compiler.source_map import SourceMap
from holdfast.programs.definition.interpreter.routine import Toolbox
from holdfast.programs.definition.serverless.importer.draft import ImportDraft, Node
from holdfast.programs.definition.serverless.importer.lists import ended, finish, read_list
from holdfast.programs.definition.serverless.importer.tasks import document_of, members_read, misfit_raise, put
from holdfast.programs.definition.serverless.importer.values import expression, literal, reads_in, span_of, value_of
from holdfast.programs.definition.serverless.importer.ways import ends
from holdfast.programs.definition.serverless.vocabulary import STARTED, definition_name, definition_version

_TOP: Final = ("document", "input", "use", "do", "timeout", "output", "evaluate")
_USE: Final = ("authentications", "errors", "functions", "retries", "timeouts")
_WHY: Final = {
    "schedule": "make one for the definition with `holdfast schedules create`",
    "extensions": "write the tasks where they belong",
    "secrets": "secrets stand in a connector of a definition",
    "catalogs": "declare functions in use.functions",
}


def import_document(
    document: Any,
    tools: Toolbox | None = None,
    workflows: Workflows | None = None,
    marks: SourceMap | None = None,
) -> m.Accepted:
    """The definition of a Serverless Workflow document. Raises InvalidDefinition with all that is not supported."""
    faults = FaultList()
    if not isinstance(document, dict) or "document" not in document or "do" not in document:
        faults.add((), "a Serverless Workflow document has `document` and `do`")
        refuse(faults, marks)
    draft = ImportDraft(document, faults)
    written = _Workflow(draft, document).written()
    refuse(faults, marks)
    try:
        return compile_document(written, tools, workflows)
    except InvalidDefinition as error:
        refuse_for([_placed(draft, fault) for fault in error.faults if isinstance(fault, DefinitionFault)], marks)
        raise


def import_text(
    text: str, tools: Toolbox | None = None, workflows: Workflows | None = None, *, file: str = ""
) -> m.Accepted:
    """The same of a text in YAML or JSON, with lines and columns. Raises InvalidDefinition."""
    from holdfast.programs.definition.compiler.source import read_source  # YAML is loaded only where a text is read

    document, marks = read_source(text, file)
    return import_document(document, tools, workflows, marks)


def _placed(draft: ImportDraft, fault: DefinitionFault) -> DefinitionFault:
    """What the compiler found at a node, at the task that the node comes from."""
    return msgspec.structs.replace(fault, trail=draft.trails.get(fault.node, ()))


class _Workflow:
    def __init__(self, draft: ImportDraft, document: dict[str, Any]) -> None:
        self._draft = draft
        self._document = document

    def written(self) -> dict[str, Any]:
        """The definition in the words of the format."""
        draft, document = self._draft, self._document
        for place, data, known in (((), document, _TOP), (("use",), draft.use, _USE)):
            for name in data:
                if name not in known and data[name]:
                    why = f": {_WHY[name]}" if name in _WHY else ""
                    draft.wrong((*place, name), f"`{name}` is not supported{why}")
        self._check_language()
        steps = self._steps()
        return {
            "holdfast": m.FORMAT,
            **self._identity(),
            "language": "jq",
            "state": {"context": {"default": {}}} if self._has_context() else {},
            "steps": steps,
        }

    def _check_language(self) -> None:
        evaluate = self._draft.mapping(self._document.get("evaluate"), ("evaluate",))
        language = evaluate.get("language", "jq")
        if language != "jq":
            self._draft.wrong(("evaluate", "language"), f"expressions in {language!r} are not supported: write jq")

    def _has_context(self) -> bool:
        return self._draft.exports or any(read[0] == "context" for read in self._draft.reads)

    def _identity(self) -> dict[str, Any]:
        draft = self._draft
        about = draft.mapping(self._document.get("document"), ("document",))
        dsl = str(about.get("dsl", ""))
        if not dsl.startswith("1."):
            draft.wrong(("document", "dsl"), f"only documents of version 1 can be read, not {dsl!r}")
        version = definition_version(str(about.get("version", "")))
        if version is None:
            message = f"a version is written as 1.2.3, and is not 0.0.0: {about.get('version')!r}"
            draft.wrong(("document", "version"), message)
        name = definition_name(str(about.get("namespace", "default")), str(about.get("name", "")))
        texts = {"title": about.get("title"), "description": about.get("summary")}
        return {"name": name, "version": version or 1, **{word: text for word, text in texts.items() if text}}

    def _steps(self) -> list[Node]:
        draft = self._draft
        given = draft.mapping(self._document.get("input"), ("input",))
        draft.only(given, ("schema", "from"), ("input",), "input")
        begin: list[Node] = [{draft.helper_name("begin", ()): put("=$start")}]
        schema = document_of(draft, given.get("schema"), ("input", "schema"))
        if schema is not None:
            misfit = {draft.helper_name("misfit-start", ()): misfit_raise("/")}
            check = {"check": "=.", "schema": schema, "on": {"failure": [misfit]}}
            begin.append({draft.helper_name("fits-start", ()): check})
        if "from" in given:
            begin.append({draft.helper_name("begin-from", ()): put(self._filter(given["from"]))})
        inner = read_list(draft, self._document.get("do"), ("do",), "", within_fork=False)
        return [*begin, *self._main(inner), *self._end(inner)]

    def _filter(self, said: Any) -> Any:
        value = f"={expression(said)}" if isinstance(said, str) else value_of(said, loose=self._draft.loose)
        self._draft.reads |= reads_in(value)
        return value

    def _end(self, inner: list[Node]) -> list[Node]:
        draft = self._draft
        if ends(inner):
            return []
        self._filter(draft.output.get("as", "."))
        draft.only(draft.output, ("schema", "as"), ("output",), "output")
        checked = finish(draft, "finish", ())
        return [*checked, {draft.helper_name("finish", ()): ended(draft)}]

    def _main(self, inner: list[Node]) -> list[Node]:
        """The tasks; in a block where something holds for all of them."""
        draft, document = self._draft, self._document
        let = {**self._about_workflow(), **self._about_runtime()}
        outer: dict[str, Any] = {"let": let} if let else {}
        timeout = draft.mapping(draft.reused("timeouts", document.get("timeout"), ("timeout",)), ("timeout",))
        if timeout:
            try:
                outer["timeout"] = span_of(timeout.get("after"))
            except ValueError as error:
                draft.wrong(("timeout", "after"), str(error))
        return [{draft.helper_name("main", ()): {"do": inner, **outer}}] if outer else inner

    def _about_workflow(self) -> dict[str, Any]:
        reads = {read for read in self._draft.reads if read[0] == "workflow"}
        definitions = [read[2:3] for read in reads if read[1:2] == ("definition",)]
        whole = any(read != ("document",) for read in definitions) or ("workflow",) in reads
        shown = self._document if whole else {"document": self._document["document"]}
        about = {"id": "=$run.id", "definition": literal(shown), "input": "=$start", "startedAt": STARTED}
        return members_read("workflow", about, reads)

    def _about_runtime(self) -> dict[str, Any]:
        about = {"name": "holdfast", "version": "1", "metadata": {}}
        return members_read("runtime", about, self._draft.reads)
