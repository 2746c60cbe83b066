"""``lint`` and the steps that are written inside a body."""

from __future__ import annotations

import textwrap

from holdfast.programs.function.lint import lint_source


def rules(body: str) -> list[str]:
    source = "import time\nimport holdfast\nfrom holdfast import perform, workflow\n\n@workflow\nasync def work(n):\n"
    return [
        found.rule for found in lint_source(source + textwrap.indent(textwrap.dedent(body), "    "), "work.py").findings
    ]


def test_a_function_that_is_performed_may_do_what_a_step_may() -> None:
    body = """
        async def fetch(url):
            time.sleep(1)
            return open(url)
        return await perform("fetch", fetch, "page")
    """
    assert rules(body) == []
    assert rules(body.replace('perform("fetch", fetch,', 'holdfast.perform("fetch", fetch,')) == []


def test_a_function_that_the_body_calls_itself_is_judged() -> None:
    """Even where it is also performed, or where another function is."""
    fetch = "async def fetch(url):\n    time.sleep(1)\n"
    assert rules(fetch + "await fetch('page')") == ["HF003"]
    assert rules(fetch + "await fetch('page')\nawait perform('fetch', fetch, 'page')") == ["HF003"]
    assert rules(fetch + "await perform('fetch', other, 'page')") == ["HF003"]


def test_a_variable_of_the_body_must_not_be_changed_by_a_step() -> None:
    body = """
        count = 0
        async def add():
            nonlocal count
            count += 1
        await perform("add", add)
    """
    assert rules(body) == ["HF008"]


def test_a_call_that_is_not_awaited_is_found() -> None:
    assert rules("perform('fetch', n)") == ["HF009"]
    assert rules("await perform('fetch', n)") == []
