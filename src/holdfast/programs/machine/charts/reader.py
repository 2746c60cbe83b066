"""Reads SCXML into a chart, and says all that is wrong with the text at once."""

from __future__ import annotations

from typing import Final, get_args

from holdfast.programs.machine.charts import chart as c
from holdfast.programs.machine.charts.content_reader import ContentReader, FileReader
from holdfast.programs.machine.charts.expressions.dialect import Datamodel
from holdfast.programs.machine.charts.findings import ChartFindings
from holdfast.programs.machine.charts.markup import MarkupElement, MarkupFault, read_markup
from holdfast.programs.machine.charts.target_checks import check_targets
from holdfast.programs.machine.charts.vocabulary import WORDS

SCXML_INVOKE_TYPES: Final = frozenset({"", "scxml", "http://www.w3.org/TR/scxml", "http://www.w3.org/TR/scxml/"})
INVOKE_DEPTH: Final = 8
_STATES: Final = ("state", "parallel", "final", "history")


def parse(
    text: str, file: str = "chart.scxml", read_file: FileReader | None = None, *, datamodel: Datamodel = "python"
) -> c.Chart:
    """Read an SCXML document.

    ``read_file`` gives the text of a file that a ``src`` names; without it, such a name is a fault. ``datamodel`` is
    that of a document which names none. Raises InvalidDefinition with every fault, each with line, column and remedy.
    """
    findings = ChartFindings(file)
    reader = DocumentReader(findings, read_file, datamodel)
    chart = reader.text(text, 0)
    findings.refuse()
    assert chart is not None
    return chart


class DocumentReader:
    """Reads one document and the charts in it."""

    def __init__(self, findings: ChartFindings, read_file: FileReader | None, datamodel: Datamodel) -> None:
        self.findings = findings
        self.contents = ContentReader(findings, read_file)
        self._datamodel = datamodel

    def text(self, text: str, depth: int) -> c.Chart | None:
        """The chart of a text."""
        try:
            root = read_markup(text)
        except MarkupFault as fault:
            self.findings.place(fault.line, fault.column, str(fault))
            return None
        return self.document(root, depth)

    def document(self, root: MarkupElement, depth: int) -> c.Chart | None:
        """The chart of an element."""
        if root.name != "scxml" or not root.is_chart:
            self.findings.add(
                root, f"the document is <{root.name}>: a chart is <scxml>, with SCXML's namespace or none"
            )
            return None
        if depth > INVOKE_DEPTH:
            self.findings.add(root, f"charts invoke each other more than {INVOKE_DEPTH} levels deep")
            return None
        datamodel = self._chosen(root, "datamodel", self._datamodel, get_args(Datamodel))
        binding = self._chosen(root, "binding", "early", ("early", "late"))
        known = len(self.findings.notes)
        states = _StateReader(self, depth).states(root)
        scripts = [child for child in root.elements() if child.is_chart and child.name == "script"]
        for extra in scripts[1:]:
            self.findings.add(extra, "<scxml> has one <script>: join them")
        for script in scripts:
            self.findings.check(script)
        notes = self.findings.notes[known:]
        del self.findings.notes[known:]  # they are of this chart, not of the one around it
        return c.Chart(
            name=root.get("name"),
            datamodel=datamodel,  # type: ignore[arg-type]  # one of its values
            late_binding=binding == "late",
            states=states,
            script=self.contents.script(scripts[0]) if scripts else None,
            notes=tuple(sorted(notes, key=lambda note: note.line)),
            line=root.line,
        )

    def _chosen(self, element: MarkupElement, name: str, usual: str, known: tuple[str, ...]) -> str:
        value = element.get(name, usual)
        if value in known:
            return value
        self.findings.add(element, f"{name}={value!r} is not supported: give one of {', '.join(known)}")
        return usual


class _StateReader:
    """Reads the states of one document, parents before children."""

    def __init__(self, document: DocumentReader, depth: int) -> None:
        self._document = document
        self._depth = depth
        self._findings = document.findings
        self._contents = document.contents
        self._places: list[tuple[MarkupElement, int]] = []  # each state's element and parent
        self._ids: dict[str, MarkupElement] = {}

    def states(self, root: MarkupElement) -> tuple[c.ChartState, ...]:
        self._place(root, -1)
        found = tuple(self._state(position) for position in range(len(self._places)))
        if len(found) == 1:
            self._findings.add(root, "<scxml> has no state: add a <state>, <parallel> or <final>")
        check_targets(found, self._findings)
        return found

    def _place(self, element: MarkupElement, parent: int) -> None:
        position = len(self._places)
        self._places.append((element, parent))
        id = element.get("id")
        if id and parent >= 0:
            if id in self._ids:
                line = self._ids[id].line
                self._findings.add(element, f"two states have the id {id!r} (line {line} too): rename one")
            self._ids.setdefault(id, element)
        for child in element.elements():
            if child.is_chart and child.name in _STATES and child.name in WORDS[element.name].children:
                self._place(child, position)

    def _state(self, position: int) -> c.ChartState:
        element, parent = self._places[position]
        self._findings.check(element)
        if "src" in element.attributes:
            self._findings.add(element, "a state's src was removed from SCXML: write the states into the chart")
        parts: dict[str, list[MarkupElement]] = {}
        for child in element.elements():
            if child.is_chart:
                parts.setdefault(child.name, []).append(child)
        kind = self._kind(element)
        return c.ChartState(
            id=(element.get("id") if parent >= 0 else "") or f"#{position}",
            kind=kind,
            parent=parent,
            initial=self._initial(element, parts.get("initial", [])),
            transitions=tuple(self._transition(each, kind) for each in parts.get("transition", [])),
            on_entry=tuple(self._contents.block(each) for each in parts.get("onentry", [])),
            on_exit=tuple(self._contents.block(each) for each in parts.get("onexit", [])),
            data=tuple(item for each in parts.get("datamodel", []) for item in self._data(each)),
            invokes=tuple(self._invoke(each) for each in parts.get("invoke", [])),
            done_data=self._done_data(element, parts.get("donedata", [])),
            line=element.line,
        )

    def _kind(self, element: MarkupElement) -> c.StateKind:
        match element.name:
            case "scxml":
                return "root"
            case "history":
                kind = element.get("type", "shallow")
                if kind not in ("shallow", "deep"):
                    self._findings.add(element, f"a history is shallow or deep, not {kind!r}")
                return "deep" if kind == "deep" else "shallow"
            case "parallel":
                return "parallel"
            case "final":
                return "final"
            case _:
                return "state"

    def _initial(self, element: MarkupElement, elements: list[MarkupElement]) -> c.ChartTransition | None:
        if "initial" in element.attributes:
            for each in elements:
                self._findings.add(each, "there are both an initial attribute and <initial>: keep one")
            return c.ChartTransition(targets=tuple(element.get("initial").split()), line=element.line)
        for extra in elements[1:]:
            self._findings.add(extra, "a state has one <initial>: remove the others")
        for first in elements[:1]:
            self._findings.check(first)
            transitions = [each for each in first.elements() if each.is_chart and each.name == "transition"]
            if len(transitions) == 1:
                return self._transition(transitions[0], "initial")
            self._findings.add(first, "<initial> holds one <transition> with a target")
        return None

    def _transition(self, element: MarkupElement, of: str) -> c.ChartTransition:
        given = element.attributes
        if of in ("initial", "shallow", "deep"):
            if {"event", "cond"} & given.keys():
                self._findings.add(element, "the transition of <initial> or <history> has no event and no cond")
            if not element.get("target").split():
                self._findings.add(element, "the transition of <initial> or <history> needs a target")
        elif not {"event", "cond", "target"} & given.keys():
            self._findings.note(element.line, "<transition> has no event, cond or target: it is taken again and again")
        kind = element.get("type", "external")
        if kind not in ("internal", "external"):
            self._findings.add(element, f"a transition is internal or external, not {kind!r}")
        return c.ChartTransition(
            events=tuple(element.get("event").split()),
            condition=element.get("cond").strip() or None,
            targets=tuple(element.get("target").split()),
            internal=kind == "internal",
            content=self._contents.block(element),
            line=element.line,
        )

    def _data(self, element: MarkupElement) -> list[c.ChartData]:
        self._findings.check(element)
        found = []
        for child in element.elements():
            if child.is_chart and child.name == "data":
                self._findings.check(child)
                id = child.get("id")
                if "id" in child.attributes and (id.startswith("_") or not id.isidentifier()):
                    self._findings.add(child, f"{id!r} is no name for a variable: use letters, digits and _ inside")
                found.append(c.ChartData(id=id, value=self._contents.value(child), line=child.line))
        return found

    def _done_data(self, element: MarkupElement, elements: list[MarkupElement]) -> c.DoneData | None:
        for extra in elements[1:]:
            self._findings.add(extra, "<final> has one <donedata>: join them")
        for first in elements[:1]:
            self._findings.check(first)
            params, content = self._contents.payload(first)
            return c.DoneData(params=params, content=content, line=first.line)
        return None

    def _invoke(self, element: MarkupElement) -> c.ChartInvoke:
        self._findings.check(element)
        given = element.attributes
        params, _ = self._contents.payload(element)
        finalizers = [each for each in element.elements() if each.is_chart and each.name == "finalize"]
        forward = element.get("autoforward", "false")
        if forward not in ("true", "false"):
            self._findings.add(element, f"autoforward is true or false, not {forward!r}")
        chart, source = self._invoked(element)
        return c.ChartInvoke(
            id=element.get("id"),
            id_location=given.get("idlocation"),
            type=element.get("type"),
            type_expression=given.get("typeexpr"),
            source=source,
            chart=chart,
            names=tuple(element.get("namelist").split()),
            params=params,
            autoforward=forward == "true",
            finalize=self._contents.block(finalizers[0]) if finalizers else None,
            line=element.line,
        )

    def _invoked(self, element: MarkupElement) -> tuple[c.Chart | None, str]:
        """The chart that an ``<invoke>`` runs; or else where it would have come from."""
        if element.get("type") not in SCXML_INVOKE_TYPES:
            return None, element.get("src")
        if "srcexpr" in element.attributes:
            return None, "srcexpr"
        if "src" in element.attributes:
            text, source = self._contents.file(element), element.get("src")
            with self._findings.within(source.removeprefix("file:")):
                return (self._document.text(text, self._depth + 1) if text else None), source
        for content in element.elements():
            if content.is_chart and content.name == "content":
                self._findings.check(content)
                for inside in content.elements():
                    return self._document.document(inside, self._depth + 1), ""
                return None, "the text or expr of <content>"
        self._findings.add(element, "<invoke> says nothing to invoke: give src, or <content> with an <scxml>")
        return None, ""
