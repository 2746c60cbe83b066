"""A whole definition as a document."""

from __future__ import annotations

from typing import Any, Final

from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.compiler import refuse
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.definition.serverless.exporter.errors import said_span
from holdfast.programs.definition.serverless.exporter.pieces import Export, Item, items_of, put_value
from holdfast.programs.definition.serverless.exporter.tasks import TaskWriter
from holdfast.programs.definition.serverless.exporter.values import said_expression, said_value
from holdfast.programs.definition.serverless.vocabulary import DSL, document_version

_PARTS: Final = ("reference", "schedule", "start", "retries", "tasks", "connectors", "cleanup_timeout", "migrate")


def export_definition(definition: m.Definition) -> dict[str, Any]:
    """The Serverless Workflow document of a definition. Raises InvalidDefinition with all that cannot be said."""
    export = Export()
    found = _Workflow(export, write_document(definition)).document()
    refuse(export.faults, None)
    return found


class _Workflow:
    def __init__(self, export: Export, written: dict[str, Any]) -> None:
        self._export = export
        self._written = written

    def document(self) -> dict[str, Any]:
        export, written = self._export, self._written
        if written.get("language") != "jq":
            export.refuse("", "its expressions are in CEL, and a document has jq: write it with `language: jq`")
            return {}
        for part in _PARTS:
            if part in written:
                export.refuse("", f"`{part}` of a definition cannot be said in a Serverless Workflow document")
        for name in written.get("state", {}):
            if name != "context":
                export.refuse("", f"of the state only `context` can be said, and not {name!r}")
        found: dict[str, Any] = {"document": self._identity()}
        items = items_of(written["steps"])
        if not items or put_value(items[0][1]) != (True, "=$start"):
            export.refuse("", "a document's data is what it is started with: begin with `set: {local.data: =$start}`")
            return found
        items, before = self._begun(items[1:])
        items, behind = self._ended(items)
        items, around = self._main(items)
        found["document"] = around.pop("document", found["document"])
        tasks = TaskWriter(export).tasks([dict([item]) for item in items], ("do",))
        use = {"use": {"functions": export.functions}} if export.functions else {}
        return {**found, **before, **use, **around, "do": tasks, **behind}

    def _identity(self) -> dict[str, Any]:
        namespace, _, name = self._written["name"].rpartition(".")
        if "." in namespace or "_" in self._written["name"]:
            self._export.refuse("", f"a document is named as namespace.name, and not {self._written['name']!r}")
        found = {"dsl": DSL, "namespace": namespace or "default", "name": name}
        found["version"] = document_version(self._written["version"])
        texts = {"title": self._written.get("title"), "summary": self._written.get("description")}
        return {**found, **{word: text for word, text in texts.items() if text}}

    def _begun(self, items: list[Item]) -> tuple[list[Item], dict[str, Any]]:
        """What the document's input says, and the nodes behind it."""
        given: dict[str, Any] = {}
        if items and items[0][0] == "fits-start":
            given["schema"] = {"format": "json", "document": items[0][1]["schema"]}
            items = items[1:]
        if items and items[0][0] == "begin-from":
            given["from"] = self._filter(put_value(items[0][1])[1])
            items = items[1:]
        return items, {"input": given} if given else {}

    def _ended(self, items: list[Item]) -> tuple[list[Item], dict[str, Any]]:
        given: dict[str, Any] = {}
        if items and list(items[-1][1]) == ["end"]:
            end = items[-1][1]["end"]
            items = items[:-1]
            if end != "=.":
                given["as"] = self._filter(end)
            if items and items[-1][0] == "finish-fits":
                given["schema"] = {"format": "json", "document": items[-1][1]["schema"]}
                items = items[:-1]
        return items, {"output": given} if given else {}

    def _filter(self, value: Any) -> Any:
        write = said_expression if isinstance(value, str) else said_value
        return self._export.sayable("", write, value, "")

    def _main(self, items: list[Item]) -> tuple[list[Item], dict[str, Any]]:
        """What holds for all tasks, and the tasks."""
        if len(items) != 1 or items[0][0] != "main" or "do" not in items[0][1]:
            return items, {}
        body = self._export.plain("main", items[0][1], "do", "let")
        found: dict[str, Any] = {}
        if "timeout" in body:
            found["timeout"] = {"after": self._export.sayable("main", said_span, body["timeout"], "")}
        document = body.get("let", {}).get("workflow", {}).get("definition", {}).get("document")
        if document is not None:
            found["document"] = document
        return items_of(body["do"]), found
