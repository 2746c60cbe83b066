"""The table of verbs. A new verb is a struct in ``model.py``, a behaviour, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.programs.definition import model as m
from holdfast.programs.definition.interpreter.behaviour import Behaviour
from holdfast.programs.definition.interpreter.blocks import Blocks, Checks, Ends, Raises, Sets, Switches
from holdfast.programs.definition.interpreter.calls import Compensates, Steps, TransportCalls
from holdfast.programs.definition.interpreter.children import Children, Continues, Sends
from holdfast.programs.definition.interpreter.forks import Forks, Picks
from holdfast.programs.definition.interpreter.graphs import Graphs
from holdfast.programs.definition.interpreter.loops import Loops
from holdfast.programs.definition.interpreter.tasks import TaskAsks
from holdfast.programs.definition.interpreter.waits import Sleeps, Waits

BEHAVIOURS: Final[Mapping[type, Behaviour]] = {
    m.BlockVerb: Blocks(),
    m.CallVerb: Steps(),
    m.CheckVerb: Checks(),
    m.CompensateVerb: Compensates(),
    m.ContinueVerb: Continues(),
    m.EndVerb: Ends(),
    m.ForkVerb: Forks(),
    m.GraphVerb: Graphs(),
    m.PickVerb: Picks(),
    m.RaiseVerb: Raises(),
    m.RepeatVerb: Loops(),
    m.RunVerb: Children(),
    m.SendVerb: Sends(),
    m.SetVerb: Sets(),
    m.SleepVerb: Sleeps(),
    m.SwitchVerb: Switches(),
    m.TaskVerb: TaskAsks(),
    m.TransportVerb: TransportCalls(),
    m.WaitVerb: Waits(),
}
