"""Workflows as data, written in Python: ``define`` begins one, ``D`` stands for what its expressions read.

``from_serverless`` reads a CNCF Serverless Workflow document, ``to_serverless`` writes one."""

from holdfast.programs.definition.dsl import Flow, jq
from holdfast.programs.definition.serverless.conversion import from_serverless, to_serverless
from holdfast.programs.definition.sketch import Sketch, define, task
from holdfast.programs.definition.terms import D, Term, has, value, when

__all__ = [
    "D",
    "Flow",
    "Sketch",
    "Term",
    "define",
    "from_serverless",
    "has",
    "jq",
    "task",
    "to_serverless",
    "value",
    "when",
]
