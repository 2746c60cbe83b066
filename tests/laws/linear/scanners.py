"""Every reader of others' texts that is written by hand, with the words of its language, to be repeated on end.

``covers`` names the functions that go through a text by an index, which `loops.py` finds. Each is in one reader here,
or in ``NO_TEXTS`` with what it goes through instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request

from holdfast.audit.bundles import unpack
from holdfast.audit.keys import read_pem, read_retired
from holdfast.errors import HoldfastError
from holdfast.expressions.engine import InvalidExpression
from holdfast.expressions.jq.expression import JqExpression
from holdfast.expressions.parser import parse
from holdfast.expressions.tokens import without_double_parentheses
from holdfast.gate.policy.expressions import examine
from holdfast.gate.policy.file import read as read_policy
from holdfast.gate.policy.weight import load_of
from holdfast.journal.itf import load as load_itf
from holdfast.journal.quotes import without_forms
from holdfast.journal.trace import check_trace
from holdfast.programs.definition.compiler.compiler import compile_text
from holdfast.programs.definition.serverless.exporter.values import NotSayable, read_jq, split_jq
from holdfast.programs.definition.serverless.importer.values import jq_of, reads_in, value_of
from holdfast.programs.machine.charts.expressions.dialect import read_expression, read_script
from holdfast.programs.machine.charts.expressions.values import ExpressionFault
from holdfast.programs.machine.charts.reader import parse as read_chart
from holdfast.schedules.cron_fields import read_cron
from holdfast.server.console import cookies
from holdfast.server.console.search import read_search
from holdfast.server.console.submission import submitted
from holdfast.server.console.templating import ticked
from holdfast.server.decoder import check_depth, read_body, read_query
from holdfast.server.protection.proxies import ForwardedRequests, TrustedProxies
from holdfast.server.routes.history import JournalCheck
from holdfast.server.run_filters import RunListing
from holdfast.transports.graphql.document import kind_of
from holdfast.transports.http.urls import read_url
from holdfast.webhooks.signatures import SIGNATURE, new_secret, proved_id
from tests.laws.linear.growth import Attack


class Scanner(NamedTuple):
    """A reader, the words of its language, and texts after which a word may mean something else."""

    name: str
    read: Callable[[Any], object]
    words: tuple[Any, ...]
    openers: tuple[Any | tuple[Any, Any], ...] = ()
    covers: tuple[str, ...] = ()

    def act(self, text: Any) -> None:
        """Read a text. To refuse it is an answer, too."""
        with suppress(HoldfastError, InvalidExpression, ExpressionFault, NotSayable):
            self.read(text)

    def attacks(self) -> Iterator[Attack]:
        """Each word and each two of them, on end, after nothing and after each opener."""
        nothing = self.words[0][:0]
        around = [each if isinstance(each, tuple) else (each, nothing) for each in (nothing, *self.openers)]
        for word in self.words:
            yield from (Attack(opener, word, end) for opener, end in around)
        pairs = [first + second for first in self.words for second in self.words if first != second]
        for pair in pairs:
            yield from (Attack(opener, pair, end) for opener, end in around[:2])

    def apart(self) -> Iterator[Attack]:
        """Each word with a blank after it, on end, after nothing and after the first opener: words that stand
        together may be one."""
        blank = " " if isinstance(self.words[0], str) else b" "
        openers = [each if isinstance(each, tuple) else (each, blank[:0]) for each in (blank[:0], *self.openers[:1])]
        yield from (Attack(opener, word + blank, end) for word in self.words for opener, end in openers)


def _words(text: str, *more: str) -> tuple[str, ...]:
    return *text.split(), *more


_CEL: Final = _words(r"""a 1 ' " \ ( ) [ { a. ! - ? : r' // a(""", "'''", '"""', " + ", "\n")
_JQ: Final = _words(r"""a $a .a " \( ) ( [ { a: , \ # 1. env @x""", "\n", " and ")
_YAML: Final = _words(r"""a a: ' " \ [ { & * | # = , !x""", "\n", " ", "- ", "? ", "\\\n", "&a ")
_JSON: Final = _words(r"""[ ] { } " \" \ , : "a": 1""", " ")
_MARKUP: Final = _words("""<state> </state> &amp; <!-- <![CDATA[ ' " a ]]>""", "<a ", "<?a ", "x='1' ", "\n")
_PROGRAM: Final = _words(r"""a ' " \' \ && ! true ( ) ; ++ In( """, "'''", " ", "\n")
_RULE: Final = "version: 1\nrules:\n- name: a\n  effect: allow\n  when: "
_ZIP: Final = b"PK\x03\x04"


def _scope(**headers: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    about = {"type": "http", "method": "POST", "scheme": "http", "path": "/", "query_string": b""}
    return {**about, "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "headers": Headers(named).raw}


def _forwarded(text: str) -> object:
    entrance = ForwardedRequests(lambda *_: None, TrustedProxies(["127.0.0.1"]))  # type: ignore[arg-type,return-value]
    return entrance._seen_through(_scope(x_forwarded_for=text))


def _cookies(text: str) -> object:
    connection = HTTPConnection(_scope(cookie=text))
    return cookies.session_of(connection), cookies.login_of(connection), cookies.said(connection)


def _form(body: str, media: str) -> object:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body.encode(), "more_body": False}

    async def read() -> int:
        request = Request(_scope(content_type=media, content_length=str(len(body))), receive)  # type: ignore[arg-type]
        async with submitted(request, 10**9) as typed:
            return len(typed)

    return asyncio.run(read())


_PART: Final = '--a\r\nContent-Disposition: form-data; name="a"\r\n\r\n'


SCANNERS: Final = (
    Scanner(
        "an expression in CEL",
        parse,
        _CEL,
        ('"', "'''", "a("),
        ("expressions/lexer.py:lexemes", "expressions/parser.py:_next", "expressions/parser.py:_take"),
    ),
    Scanner("parentheses of CEL", without_double_parentheses, _CEL, ('"',)),
    Scanner("the load of a rule", lambda text: load_of(text, ()), (*_CEL, "matches("), ('"',)),
    Scanner("a rule", examine, (*_CEL, "b.all(c, ", "run.id "), ("b && ",)),
    Scanner(
        "an expression in jq",
        lambda text: JqExpression(text, ["a"], lazily=True),
        _JQ,
        ('"', '"\\('),
        ("expressions/jq/lexer.py:read", "expressions/jq/lexer.py:_string", "expressions/jq/expression.py:_reads"),
    ),
    Scanner(
        "a policy",
        lambda text: read_policy(text, "policy.yaml"),
        _words(r"""a ' " \ [ &a # ,""", "\n", "- ", "\\\n", "b && "),
        ((f"{_RULE}|\n    ", "true\n"), (f"{_RULE}'", "true'"), (f'{_RULE}"', 'true"'), f'{_RULE}"'),
        ("gate/policy/yaml.py:_offsets", "gate/policy/yaml.py:place"),
    ),
    Scanner("a definition", compile_text, _YAML, ("{", '"'), ("programs/definition/compiler/source_map.py:located",)),
    Scanner(
        "values of Serverless Workflow",
        lambda text: (value_of(text, loose=True), reads_in(text), jq_of(text)),
        _JQ,
        ("=", '="'),
        ("programs/definition/serverless/importer/values.py:_reads",),
    ),
    Scanner(
        "an expression of an import, divided",
        lambda text: split_jq(text, " and "),
        _JQ,
        ('"', '"\\('),
        tuple(f"programs/definition/serverless/exporter/values.py:{name}" for name in ("split_jq", "_text_end")),
    ),
    Scanner(
        "an expression of an import, read",
        read_jq,
        (*_JQ, '"a": ', "1, ", '"a"'),
        ("[", "{", "(", '("'),
        tuple(
            f"programs/definition/serverless/exporter/values.py:{name}"
            for name in ("value", "_expression", "_items", "_member")
        ),
    ),
    Scanner("an expression of a chart", lambda text: read_expression(text, "ecmascript"), _PROGRAM, ("'",)),
    Scanner("a condition of a chart", lambda text: read_expression(text, "null"), _PROGRAM, ("In(", "In('")),
    Scanner("a script of a chart", lambda text: read_script(text, "ecmascript"), _PROGRAM, ("'",)),
    Scanner(
        "a chart",
        read_chart,
        _MARKUP,
        ("<scxml>", "<scxml a='", "<scxml xmlns='http://www.w3.org/2005/07/scxml' version='1.0'>"),
    ),
    Scanner(
        "a document of GraphQL",
        lambda text: kind_of(text, None, "it"),
        ('"', '"""', '\\"""', "\\", "#", "\n", "{", "}", "(", "a ", "query "),
        ('"', '"""'),
    ),
    Scanner("nesting of JSON", lambda text: check_depth(text.encode(), 10**9), _JSON, ('{"a":' + "[]," * 70 + '"',)),
    Scanner(
        "a body",
        lambda text: read_body(text.encode(), JournalCheck, 64),
        (*_JSON, '"a":1,', '"source":1,'),
        ('{"a":"', "{"),
    ),
    Scanner(
        "a query",
        lambda text: read_query([("limit", text), *[("x" + str(i), "1") for i in range(text.count("a"))]], RunListing),
        ("a", "1", " "),
    ),
    Scanner("a search", read_search, ("a", '"', " ", ":", "=", "status:", "\n")),
    Scanner("a cron line", read_cron, ("*", "1", ",", "/", "-", " ", "MON#1", "L")),
    Scanner(
        "an address",
        lambda text: read_url(text, "it"),
        ("http://", "a", "/", "{", "}", "?", "#", "[", ":1", "%20", "."),
        ("http://", "http://a/"),
    ),
    Scanner("addresses that proxies name", _forwarded, ("127.0.0.1", ",", " ", "[", "]", ":", "a")),
    Scanner(
        "cookies",
        _cookies,
        ("a", "=", ";", '"', "\\", '\\"', "\\1", "\\101", " ", "%41", "holdfast-said="),
        (('a="', '"'), ('holdfast-said="', '"'), ('holdfast-session="', '"')),
    ),
    Scanner(
        "a form of a page",
        lambda text: _form(text, "application/x-www-form-urlencoded"),
        ("a", "=", "&", ";", "%41", "%", "+"),
        ("a=",),
    ),
    Scanner(
        "a form with files",
        lambda text: _form(text, "multipart/form-data; boundary=a"),
        ("a", "--a", "--", "\r\n", "\r", ": ", ";", '"', _PART),
        (_PART, '--a\r\nContent-Disposition: form-data; name="', "--a\r\n"),
    ),
    Scanner(
        "the type of a form",
        lambda text: _form("", text),
        ("a", ";", "=", '"', "\\", '\\"', " ", "*0*=", "%41", "'"),
        ("multipart/form-data; ", 'multipart/form-data; boundary="'),
    ),
    Scanner(
        "a signature",
        lambda text: proved_id("standard", (new_secret("standard"),), {SIGNATURE: text}, text.encode(), 0),
        ("v1,", " ", "a", "="),
    ),
    Scanner("a sentence for a page", ticked, ("`", " (`", "`)", "a", "(", ")", " ")),
    Scanner("a trace", lambda text: (load_itf(text), check_trace(text)), _JSON),
    Scanner(
        "keys",
        lambda data: (read_pem(data), read_retired(data)),
        (b"-----BEGIN PUBLIC KEY-----", b"-----END PUBLIC KEY-----", b"-", b"key 1: ", b"\n", b" ", b"a"),
    ),
    Scanner(
        "a bundle of evidence", unpack, (_ZIP, _ZIP + b"\0" * 26, b"\0", b"a"), (_ZIP,), ("audit/bundles.py:unpack",)
    ),
    Scanner(
        "a text without its secrets",
        lambda text: without_forms(text, {text[: len(text) // 2], text[:8], text[:2], "a"}),
        ("a", "ab", "-", "aaaaaaab", " "),
        covers=("journal/quotes.py:_places",),
    ),
)

NO_TEXTS: Final = {
    "audit/retirement.py:retired_by": "keys of the installation",
    "expressions/reads.py:place_of": "steps of one path",
    "journal/secrecy.py:_values_at": "steps of one path to a secret",
    "kernel/signal_writer.py:_without": "pieces of one queue, each of 64 signals or more",
    "programs/definition/compiler/batch.py:one_by_one": "definitions of one request, in a process with a budget",
    "programs/definition/compiler/checks/near_misses.py:near_miss": "members of one selection",
    "programs/function/secrets.py:_dig": "steps of one path to a secret",
    "programs/function/secrets.py:_masked": "steps of one path to a secret",
    "programs/machine/key_fields.py:key_in": "steps of one path, which the manifest has",
    "programs/machine/key_fields.py:schema_at": "steps of one path, which the manifest has",
    "store/memory/tables.py:keep": "the parents of one run, by an id of bounded length",
    "templates/story.py:until_cancelled": "entries of a journal: one of them ends the loop",
    "testing/model_traces/walks.py:_template": "a trace of our own",
    "audit/collector.py:_leads": "blocks of the store, a page at a time",
    "audit/merkle.py:_rows": "digests: each row has half of those of the row before",
    "expressions/process.py:_answer": "the answer of our own process, as it comes",
    "journal/ledger.py:is_satisfied": "promises of a journal: the index only goes forward",
    "programs/definition/interpreter/interpreter.py:proceed": "nodes of a definition that was accepted",
    "store/postgres/layers.py:_counts_of": "numbers of changes in one commit",
}
"""Functions that go by an index through something that is no text of others, with what it is."""
