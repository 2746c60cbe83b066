"""Reads executable content, parameters and values of a chart's text."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from typing import Any, Final

from holdfast.programs.machine.charts import chart as c
from holdfast.programs.machine.charts.delays import delay_milliseconds
from holdfast.programs.machine.charts.expressions.values import Budget, ExpressionFault, stored
from holdfast.programs.machine.charts.findings import ChartFindings
from holdfast.programs.machine.charts.markup import MarkupElement, MarkupFault, as_data, read_markup
from holdfast.programs.machine.charts.vocabulary import EXECUTABLE

FileReader = Callable[[str], str]
"""Gives the text of a file that the chart names with ``src``. May raise OSError or ValueError."""

_LITERAL_COST: Final = 1_000_000


def literal(text: str) -> Any:
    """The data that a text stands for: JSON, a literal of Python, or else the text with its white space made single."""
    for read in (json.loads, ast.literal_eval):
        try:
            return stored(read(text.strip()), Budget(_LITERAL_COST))
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, ExpressionFault):
            continue
    return " ".join(text.split())


class ContentReader:
    """Reads what a chart does. Faults go to ``findings``; ``read_file`` gives the files that it names."""

    def __init__(self, findings: ChartFindings, read_file: FileReader | None) -> None:
        self.findings = findings
        self._read_file = read_file

    def block(self, element: MarkupElement) -> c.Block:
        """The content of an element."""
        self.findings.check(element)
        return self._contents(list(element.elements()))

    def _contents(self, elements: list[MarkupElement]) -> c.Block:
        found = []
        for element in elements:
            if not element.is_chart:
                self.findings.add(element, f"<{element.name}> is of another namespace and not known here: remove it")
            elif element.name in EXECUTABLE:
                found.append(self._content(element))
        return tuple(found)

    def _content(self, element: MarkupElement) -> c.Content:
        if element.name not in ("if", "foreach"):
            self.findings.check(element)
        line = element.line
        match element.name:
            case "raise":
                return c.RaiseContent(event=element.get("event"), line=line)
            case "if":
                return self._if(element)
            case "foreach":
                index = element.attributes.get("index")
                array, item = element.get("array"), element.get("item")
                return c.ForeachContent(array=array, item=item, index=index, content=self.block(element), line=line)
            case "log":
                return c.LogContent(label=element.get("label"), expression=element.attributes.get("expr"), line=line)
            case "assign":
                return c.AssignContent(location=element.get("location"), value=self.value(element), line=line)
            case "script":
                return self.script(element)
            case "send":
                return self._send(element)
            case _:
                if not {"sendid", "sendidexpr"} & element.attributes.keys():
                    self.findings.add(element, "<cancel> needs sendid or sendidexpr")
                expression = element.attributes.get("sendidexpr")
                return c.CancelContent(id=element.get("sendid"), id_expression=expression, line=line)

    def script(self, element: MarkupElement) -> c.ScriptContent:
        """A script, or the file that holds it."""
        text = self.file(element) if "src" in element.attributes else element.text()
        return c.ScriptContent(text=text, line=element.line)

    def _if(self, element: MarkupElement) -> c.IfContent:
        self.findings.check(element)
        parts: list[tuple[MarkupElement, list[MarkupElement]]] = [(element, [])]
        for child in element.elements():
            if child.is_chart and child.name in ("elseif", "else"):
                self.findings.check(child)
                if parts[-1][0].name == "else":
                    self.findings.add(child, f"<{child.name}> stands behind <else>: <else> is the last branch")
                parts.append((child, []))
            else:
                parts[-1][1].append(child)
        return c.IfContent(
            branches=tuple(
                c.IfBranch(condition=head.attributes.get("cond"), content=self._contents(body), line=head.line)
                for head, body in parts
            ),
            line=element.line,
        )

    def _send(self, element: MarkupElement) -> c.SendContent:
        given = element.attributes
        params, content = self.payload(element)
        if content is not None and "namelist" in given:
            self.findings.add(element, "<send> has both namelist and <content>: keep one")
        if not {"event", "eventexpr", "type", "typeexpr"} & given.keys() and content is None:
            self.findings.add(element, "<send> needs event, eventexpr or <content>")
        if "delay" in given:
            try:
                delay_milliseconds(given["delay"])
            except ValueError as error:
                self.findings.add(element, str(error))
        if given.get("target") == "#_internal" and {"delay", "delayexpr"} & given.keys():
            self.findings.add(element, "an event for #_internal has no delay: remove the delay or the target")
        return c.SendContent(
            event=element.get("event"),
            event_expression=given.get("eventexpr"),
            target=element.get("target"),
            target_expression=given.get("targetexpr"),
            type=element.get("type"),
            type_expression=given.get("typeexpr"),
            delay=element.get("delay"),
            delay_expression=given.get("delayexpr"),
            id=element.get("id"),
            id_location=given.get("idlocation"),
            names=tuple(element.get("namelist").split()),
            params=params,
            content=content,
            line=element.line,
        )

    def payload(self, element: MarkupElement) -> tuple[tuple[c.ChartParam, ...], c.ChartValue | None]:
        """The ``<param>`` and ``<content>`` children."""
        params: list[c.ChartParam] = []
        contents: list[c.ChartValue] = []
        for child in element.elements():
            if child.is_chart and child.name == "param":
                params.append(self._param(child))
            elif child.is_chart and child.name == "content" and element.name != "invoke":
                self.findings.check(child)
                contents.append(self.value(child))
        if len(contents) > 1 or (contents and params):
            self.findings.add(element, f"<{element.name}> holds either <param>s or one <content>: remove the others")
        return tuple(params), contents[0] if contents else None

    def _param(self, element: MarkupElement) -> c.ChartParam:
        self.findings.check(element)
        expression, location = element.attributes.get("expr"), element.attributes.get("location")
        if expression is None and location is None:
            self.findings.add(element, "<param> needs expr or location")
        return c.ChartParam(name=element.get("name"), expression=expression, location=location, line=element.line)

    def value(self, element: MarkupElement) -> c.ChartValue:
        """What an element gives: by its expression, its file, an XML element or a text in it; or else nothing."""
        line = element.line
        inside = list(element.elements())
        if "expr" in element.attributes:
            if inside or element.text().strip():
                self.findings.add(element, f"<{element.name}> has both expr and content: keep one")
            return c.ChartValue(expression=element.attributes["expr"], line=line)
        if "src" in element.attributes:
            return c.ChartValue(data=_data(self.file(element)), line=line)
        if inside:
            return c.ChartValue(data=as_data(inside[0]), line=line)
        text = element.text()
        return c.ChartValue(data=literal(text) if text.strip() else None, line=line)

    def file(self, element: MarkupElement) -> str:
        """The text of the file that ``src`` names, or nothing where it cannot be read."""
        name = element.get("src").removeprefix("file:")
        if "://" in name:
            self.findings.add(element, f"nothing is fetched from {name!r}: keep the file beside the chart")
        elif self._read_file is None:
            self.findings.add(element, f"the file {name!r} cannot be read from here: write its content into the chart")
        else:
            try:
                return self._read_file(name)
            except (OSError, ValueError) as error:
                self.findings.add(element, f"the file {name!r} cannot be read: {error}")
        return ""


def _data(text: str) -> Any:
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        try:
            return as_data(read_markup(text.strip()))
        except MarkupFault:
            pass
    return literal(text)
