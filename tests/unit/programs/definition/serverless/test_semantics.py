"""What an imported document does; each is played with crashes, and is the same after export and import."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.programs.definition.trials import SignalSpec
from tests.unit.programs.definition.serverless.documents import check, imported
from tests.unit.worker.ground import Ground

pytest.importorskip("jq", reason="jq is not installed: holdfast[serverless]")

SPEC = "https://serverlessworkflow.io/spec/1.0.0/errors/"
REFUSED = {"raise": {"class": "transport", "message": "refused"}}


def test_data_goes_from_task_to_task_and_the_context_stays() -> None:
    check(
        """
        input: {from: .order}
        do:
          - price: {set: {sum: "${ .count * 3 }"}, export: {as: '$context + {sum: .sum}'}}
          - rest:
              input: {from: .sum}
              set: {half: "${ . / 2 }", was: "${ $input }"}
              output: {as: '{half, was, c: $context}'}
        output: {as: '{result: .}'}
        """,
        {"order": {"count": 4}},
        result={"result": {"half": 6, "was": 12, "c": {"sum": 12}}},
        state={"context": {"sum": 12}},
    )


def test_the_input_of_a_task_is_its_own_again_behind_inner_tasks() -> None:
    check(
        """
        do:
          - outer:
              do:
                - inner: {set: {b: "${ $input.a }"}}
              output: {as: '{inner: .b, outer: $input.a}'}
        """,
        {"a": 1},
        result={"inner": 1, "outer": 1},
    )


def test_a_task_and_the_workflow_know_themselves() -> None:
    check(
        """
        do:
          - my task:
              set: {name: "${ $task.name }", at: "${ $task.reference }",
                    flow: "${ $workflow.definition.document.name }",
                    got: "${ $workflow.input.x }", engine: "${ $runtime.name }"}
        """,
        {"x": 7},
        result={"name": "my task", "at": "/do/0/my task", "flow": "short", "got": 7, "engine": "holdfast"},
    )


def test_loose_paths_are_expressions_and_strict_ones_are_texts() -> None:
    check("do: [{a: {set: {x: .n, y: n}}}]", {"n": 1}, result={"x": 1, "y": "n"})


@pytest.mark.parametrize(("n", "result"), [(1, {"n": 3, "via": "low"}), (5, {"n": 6, "via": "high"}), (9, {"n": 9})])
def test_tasks_jump_forwards_and_backwards(n: int, result: dict[str, Any]) -> None:
    check(
        """
        do:
          - look:
              switch:
                - low: {when: .n < 3, then: low}
                - high: {when: .n == 5, then: high}
              then: end
          - high: {set: {n: 6, via: high}, then: exit}
          - low: {set: {n: "${ .n + 1 }", via: low}, then: check}
          - never: {set: {never: true}}
          - check:
              switch:
                - again: {when: .n < 3, then: low}
                - done: {then: continue}
        """,
        {"n": n},
        result=result,
    )


def test_the_workflow_ends_from_within() -> None:
    check(
        """
        do:
          - each:
              for: {in: .items}
              do:
                - stop: {if: $item > 1, set: {found: "${ $item }"}, then: end}
                - go: {set: {seen: "${ $item }"}}
          - never: {set: {never: true}}
        output: {as: '{out: .}', schema: {document: {type: object, required: [out]}}}
        """,
        {"items": [1, 2, 3]},
        result={"out": {"found": 2}},
    )


def test_exit_leaves_its_list_alone() -> None:
    check(
        """
        do:
          - inner:
              do:
                - first: {set: {a: 1}, then: exit}
                - second: {set: {a: 2}}
          - outer: {set: {b: "${ .a + 1 }"}}
        """,
        result={"b": 2},
    )


def test_a_loop_ends_where_its_condition_does() -> None:
    check(
        """
        do:
          - sum:
              for: {each: n, at: i, in: .items}
              while: (.sum // 0) < 3
              do: [{add: {set: {sum: "${ (.sum // 0) + $n }", last: "${ $i }"}}}]
        """,
        {"items": [1, 2, 3, 4]},
        result={"sum": 3, "last": 1},
    )


def test_branches_give_a_list_in_their_order_and_see_the_same_data() -> None:
    check(
        """
        do:
          - both:
              fork:
                branches:
                  - z: {set: {z: "${ .n }"}}
                  - a: {do: [{a1: {set: {n: 2}}}, {a2: {set: {a: "${ .n }"}}}]}
        """,
        {"n": 1},
        result=[{"z": 1}, {"a": 2}],
    )


def test_the_first_branch_wins_where_they_compete() -> None:
    check(
        """
        do:
          - race:
              fork:
                compete: true
                branches: [{slow: {wait: {hours: 1}}}, {fast: {do: [{nap: {wait: PT1M}}, {won: {set: {won: fast}}}]}}]
        """,
        result={"won": "fast"},
    )


TRY = """
do:
  - attempt:
      try: [{get: {call: http, with: {method: get, endpoint: "https://x.example/{id}"}}}]
      catch:
        errors: {with: {type: https://serverlessworkflow.io/dsl/errors/types/communication}}
        as: problem
        when: .id == 1
        exceptWhen: $problem.status == 503
        do: [{say: {set: {status: "${ $problem.status }", at: "${ $problem.instance }", id: "${ .id }"}}}]
"""


def test_a_caught_error_has_its_details_and_the_data_is_that_before_the_try() -> None:
    check(TRY, {"id": 1}, mock={"get": REFUSED}, result={"status": 500, "at": "/do/0/attempt/try/0/get", "id": 1})


def test_an_error_that_is_not_caught_goes_on_as_it_was() -> None:
    error = {"code": SPEC + "communication", "message": "refused", "status": 500}
    check(TRY, {"id": 2}, mock={"get": REFUSED}, status="failed", error=error)


RETRY = """
do:
  - attempt:
      try: [{get: {call: http, with: {method: get, endpoint: https://x.example}}}]
      catch:
        errors: {with: {type: https://serverlessworkflow.io/spec/1.0.0/errors/communication}}
        retry:
          delay: {seconds: 3}
          backoff: {exponential: {}}
          when: $error.status == 500
          limit: {attempt: {count: 3}, duration: PT1H}
        do: [{give: {set: {gave: up}}}]
"""


def test_a_try_is_retried_and_then_mended() -> None:
    check(RETRY, mock={"get": REFUSED}, result={"gave": "up"})
    check(RETRY, mock={"get": {"each": [REFUSED, REFUSED, {"fine": True}]}}, result={"fine": True})


def test_what_the_filter_does_not_name_is_not_retried() -> None:
    error = {"code": SPEC + "timeout", "status": 408}
    check(RETRY, mock={"get": {"raise": {"class": "timeout"}}}, status="failed", error=error)


def test_a_time_out_is_an_error_that_can_be_caught() -> None:
    check(
        """
        do:
          - attempt:
              try: [{slow: {wait: {hours: 2}, timeout: {after: {minutes: 1}}}}]
              catch: {do: [{say: {set: {status: "${ $error.status }"}}}]}
        """,
        result={"status": 408},
    )


def test_a_failed_expression_can_be_caught() -> None:
    check(
        """
        do:
          - attempt:
              try: [{bad: {set: {x: "${ .a.b.c }"}}}]
              catch: {do: [{say: {set: {kind: "${ $error.type }"}}}]}
        """,
        {"a": "text"},
        result={"kind": SPEC + "expression"},
    )


EVENT = {"specversion": "1.0", "type": "temperature", "source": "s", "data": {"t": 40}}


def test_an_event_is_heard_with_its_envelope_or_without() -> None:
    document = """
    do: [{hear: {listen: {to: {one: {with: {type: temperature, data: "${ .t > 38 }"}}}}}}]
    """
    cold = SignalSpec("temperature", {"t": 30})
    for hot in (EVENT, {"t": 40}):
        check(document, signals=(cold, SignalSpec("temperature", hot)), result=[{"t": 40}])


def test_any_and_all_events_are_heard() -> None:
    filters = "[{with: {type: temperature, source: s}}, {with: {type: bpm}}]"
    both = (SignalSpec("bpm", 50), SignalSpec("temperature", EVENT))
    check(f"do: [{{hear: {{listen: {{to: {{any: {filters}}}}}}}}}]", signals=both, result=[50])
    check(f"do: [{{hear: {{listen: {{to: {{all: {filters}}}}}}}}}]", signals=both, result=[{"t": 40}, 50])
    envelope = f"do: [{{hear: {{listen: {{to: {{all: {filters}}}, read: envelope}}}}}}]"
    check(envelope, signals=both, result=[EVENT, {"data": 50}])


def test_an_emitted_event_is_the_data() -> None:
    check(
        """
        do:
          - tell: {emit: {event: {with: {source: https://s.example, type: told, time: "2026-01-01T00:00:00Z", id: a,
                                         data: {n: "${ .n }"}}}}}
        """,
        {"n": 1},
        mock={"tell-do": None},
        result={
            "specversion": "1.0",
            "source": "https://s.example",
            "type": "told",
            "time": "2026-01-01T00:00:00Z",
            "id": "a",
            "data": {"n": 1},
        },
    )


def test_a_declared_function_gets_its_arguments_as_data() -> None:
    document = """
    use:
      functions:
        double: {input: {schema: {document: {type: object, required: [n]}}}, set: {n: "${ .n * 2 }"}}
    do:
      - one: {call: double, with: {n: "${ .x }"}, output: {as: '.n'}}
      - two: {call: double, with: {n: "${ . }"}}
    """
    check(document, {"x": 5}, result={"n": 20})


def test_another_workflow_is_run() -> None:
    document = """
    do:
      - child: {run: {workflow: {namespace: test, name: other, version: 0.1.0, input: {a: "${ .x }"}}}}
      - later: {run: {workflow: {namespace: test, name: other}, await: false}}
    """
    check(document, {"x": 5}, mock={"child": {"got": 5}, "later": "id"}, result={"got": 5})


def test_a_value_that_does_not_fit_its_schema_is_a_validation_error() -> None:
    document = """
    do:
      - a: {set: {n: "${ .n }"}, export: {as: .n, schema: {document: {type: integer}}}}
    """
    check(document, {"n": 1}, result={"n": 1}, state={"context": 1})
    check(document, {"n": "x"}, status="failed", error={"code": SPEC + "validation", "instance": "/do/0/a"})


def test_the_whole_workflow_has_a_time_out() -> None:
    error = {"class": "timeout"}
    check("timeout: {after: {minutes: 1}}\ndo: [{nap: {wait: {hours: 1}}}]", status="failed", error=error)


def test_a_run_hears_what_it_emits() -> None:
    """On an engine: an emitted event is a signal to the run itself, and one that does not fit is left for others."""
    document = imported(
        """
        do:
          - both:
              fork:
                branches:
                  - hear: {listen: {to: {one: {with: {type: told, data: "${ .n > 1 }"}}}}}
                  - say:
                      do:
                        - one: {emit: {event: {with: {source: https://s.example, type: told, data: {n: 1}}}}}
                        - two: {emit: {event: {with: {source: https://s.example, type: told, data: {n: 2}}}}}
              output: {as: '.[0]'}
        """
    )

    async def main(ground: Ground) -> Any:
        async with ground.engine() as app:
            app.definitions.add(document)
            run = await app.start("test.short", {})
            return await run.result()

    assert Ground(None).play(main) == [{"n": 2}]
