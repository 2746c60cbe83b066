"""Lists of tasks, and where a task goes on: ``then``, and the cases of ``switch``.

Where every task goes on behind itself, a list of tasks is a list of nodes. Where tasks jump, the list becomes a loop
over one switch: each case has tasks that follow each other, and says where it goes on. So a jump may lead backwards,
too, and the definition has no jumps::

    - flow-begin: {set: {local.at.main: inc}}
    - flow:
        repeat: {until: =$local.at.main == ""}
        do:
          - flow-go:
              switch:
                - {when: =$local.at.main == "inc", do: [{flow-next-1: {set: {local.at.main: look}}}, {inc: …}]}
                - {when: =$local.at.main == "look", do: [{flow-next-2: {set: {local.at.main: ""}}}, {look: …}]}
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from holdfast.programs.definition.compiler.faults import Trail, shown
from holdfast.programs.definition.serverless.importer import blocks, calls, errors, events
from holdfast.programs.definition.serverless.importer.draft import ImportDraft, Node
from holdfast.programs.definition.serverless.importer.tasks import BASE, TaskDraft, document_of, misfit_raise
from holdfast.programs.definition.serverless.importer.values import expression, value_of
from holdfast.programs.definition.serverless.importer.ways import PLAIN, Listed, has_jumps, linked

Read = Callable[[TaskDraft], list[Node]]

KINDS: Final[dict[str, tuple[Read, tuple[str, ...]]]] = {
    "call": (calls.call, ("with",)),
    "emit": (events.emit, ()),
    "for": (blocks.iterated, ("while", "do")),
    "fork": (blocks.forked, ()),
    "listen": (events.listen, ("foreach",)),
    "raise": (errors.raised, ()),
    "run": (calls.run, ()),
    "set": (blocks.put_data, ()),
    "try": (errors.tried, ("catch",)),
    "wait": (blocks.waited, ()),
    "do": (blocks.done, ()),
}
"""Each kind of task but ``switch``, and the members that go with it. ``do`` is last: others have it, too."""


def read_list(draft: ImportDraft, tasks: Any, trail: Trail, name: str, within_fork: bool) -> list[Node]:
    """The nodes of a list of tasks. ``name`` is that of the task whose list it is."""
    if not isinstance(tasks, list):
        draft.wrong(trail, f"this is a list of tasks, each `- name: {{…}}`, not {shown(tasks)}")
        return []
    found = [(*named(draft, item, (*trail, at)), at) for at, item in enumerate(tasks)]
    listed = [Listed(said, task, (*trail, at, said)) for said, task, at in found if task is not None]
    return _List(draft, linked(listed), trail, name, within_fork).nodes()


def named(draft: ImportDraft, item: Any, trail: Trail) -> tuple[str, dict[str, Any] | None]:
    """The name and the body of an item of a list; None where it is no task."""
    if isinstance(item, dict) and len(item) == 1:
        ((name, task),) = item.items()
        if isinstance(task, dict):
            return str(name), task
    draft.wrong(trail, f"a task is a map with one member, its name: `- name: {{…}}`, not {shown(item)}")
    return "", None


def read_task(
    draft: ImportDraft,
    name: str,
    task: Any,
    trail: Trail,
    *,
    within_fork: bool,
    then: Read | None = None,
) -> Node:
    """The node of one task. ``then`` gives the nodes that say where it goes on."""
    made = TaskDraft(draft, name, draft.mapping(task, trail), trail, within_fork=within_fork)
    kinds = [kind for kind in KINDS if kind in made.task]
    if not kinds:
        made.wrong(f"a task has one of {', '.join(KINDS)} and switch, and this one has none that is known")
        return {made.name: {"set": {"local.data": "=."}}}
    read, more = KINDS[kinds[0]]
    draft.only(made.task, (kinds[0], *more, *BASE), trail, f"`{kinds[0]}`")
    core = read(made)
    return made.node(core, then(made) if then else None)


class _List:
    def __init__(self, draft: ImportDraft, listed: list[Listed], trail: Trail, name: str, within_fork: bool) -> None:
        self._draft = draft
        self._listed = listed
        self._trail = trail
        self._name = name
        self._within_fork = within_fork
        self._slug = ""  # of the place that says where a list with jumps goes on
        self._check_targets()

    def _check_targets(self) -> None:
        names = [each.name for each in self._listed]
        for each in self._listed:
            for way in each.ways:
                if way not in PLAIN and way not in names:
                    self._draft.faults.unknown((*each.trail, "then"), "task of this list", way, names)
            if self._within_fork and "end" in each.ways:
                self._draft.wrong(each.trail, "the workflow cannot end inside a fork: others run beside it")

    def nodes(self) -> list[Node]:
        if has_jumps(self._listed):
            return self._loop()
        return [self._node(each, last=at == len(self._listed) - 1) for at, each in enumerate(self._listed)]

    # -- a list with jumps ---------------------------------------------------------------------------------------------

    def _loop(self) -> list[Node]:
        draft = self._draft
        self._slug = draft.slug(self._name or "main")
        prefix = f"{self._name}-flow" if self._name else "flow"
        begin, flow, go = (draft.helper_name(f"{prefix}{end}", self._trail) for end in ("-begin", "", "-go"))
        place, cases = f"local.at.{self._slug}", []
        leaders = self._leaders()
        for number, first in enumerate(leaders):
            until = leaders[number + 1] if number + 1 < len(leaders) else len(self._listed)
            following = self._listed[until].name if until < len(self._listed) else ""
            go_on = {draft.helper_name(f"{prefix}-next-{number + 1}", self._trail): {"set": {place: following}}}
            do = [go_on, *(self._node(each, last=False) for each in self._listed[first:until])]
            cases.append({"when": f"=${place} == {json.dumps(self._listed[first].name, ensure_ascii=False)}", "do": do})
        return [
            {begin: {"set": {place: self._listed[0].name}}},
            {flow: {"repeat": {"until": f'=${place} == ""'}, "do": [{go: {"switch": cases}}]}},
        ]

    def _leaders(self) -> list[int]:
        """Where a case begins: at the first task, at those that are jumped to, and behind those that do not go on."""
        targets = {way for each in self._listed for way in each.ways}
        found = [0]
        for at, each in enumerate(self._listed[1:], 1):
            before = self._listed[at - 1]
            if each.name in targets or not before.goes_on or any(way != "continue" for way in before.ways):
                found.append(at)
        return found

    # -- one task ------------------------------------------------------------------------------------------------------

    def _node(self, each: Listed, *, last: bool) -> Node:
        if "switch" in each.task:
            return self._switch(each, last=last)
        return read_task(
            self._draft,
            each.name,
            each.task,
            each.trail,
            within_fork=self._within_fork,
            then=lambda made: self._way(made, each.then, "then", last=last),
        )

    def _switch(self, each: Listed, *, last: bool) -> Node:
        made = TaskDraft(self._draft, each.name, each.task, each.trail, within_fork=self._within_fork)
        self._draft.only(each.task, ("switch", *BASE), each.trail, "`switch`")
        cases: list[dict[str, Any]] = []
        for at, case in enumerate(each.cases):
            place = ("switch", at, case.name)
            self._draft.only(case.said, ("when", "then"), (*each.trail, *place), "a case")
            do = self._way(made, case.then, f"to-{at + 1}" if case.has_condition else "to-else", last=last)
            if not case.has_condition:
                cases.append({"else": do})
                break
            cases.append({"when": made.expression(case.said["when"], *place, "when"), "do": do})
        else:
            cases.append({"else": self._way(made, each.then, "to-else", last=last)})
        return made.node([{made.core_name(): {"switch": cases}}])

    def _way(self, made: TaskDraft, then: str, suffix: str, *, last: bool) -> list[Node]:
        """The nodes that lead to where a task goes on; none where that is behind it."""
        main = not self._name
        if then == "end" and not (main and last):
            checked = finish(self._draft, f"{made.name}-{suffix}", made.trail)
            return [*checked, {made.helper(suffix): ended(self._draft)}]
        if not self._slug or then in ("continue", "end"):
            return []
        following = "" if then == "exit" else then
        return [{made.helper(suffix): {"set": {f"local.at.{self._slug}": following}}}]


def ended(draft: ImportDraft) -> dict[str, Any]:
    """A node's body that ends the workflow with its output."""
    said = draft.output.get("as", "${ . }")
    value = f"={expression(said)}" if isinstance(said, str) else value_of(said, loose=draft.loose)
    return {"end": value}


def finish(draft: ImportDraft, name: str, trail: Trail) -> list[Node]:
    """The check of the workflow's output, where the document has a schema for it."""
    schema = document_of(draft, draft.output.get("schema"), ("output", "schema"))
    if schema is None:
        return []
    misfit = {draft.helper_name(f"{name}-misfit", trail): misfit_raise("/")}
    check = {"check": ended(draft)["end"], "schema": schema, "on": {"failure": [misfit]}}
    return [{draft.helper_name(f"{name}-fits", trail): check}]
