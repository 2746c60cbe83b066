"""Parts of Slack's messages (Block Kit), within its limits, and with nothing of people's texts taken for markup.

What a program wrote is shown in plain text where that is possible. In a line with markup it is escaped. What is longer
than Slack takes is cut, and the cut says so.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

Piece = dict[str, Any]

HEADER_LIMIT: Final = 150
TEXT_LIMIT: Final = 3000
FIELD_LIMIT: Final = 2000
FIELDS_LIMIT: Final = 10
CODE_LIMIT: Final = 2800
CONFIRM_TITLE_LIMIT: Final = 100
CONFIRM_TEXT_LIMIT: Final = 300
NOTICE_LIMIT: Final = 3000
MODAL_TITLE_LIMIT: Final = 24

_MORE: Final = "…"


def cut(text: str, limit: int) -> str:
    """The text, at most so long."""
    return text if len(text) <= limit else text[: limit - 1] + _MORE


def escaped(text: str, limit: int = FIELD_LIMIT) -> str:
    """A text inside of markup, on one line: it cannot mention anybody, nor link. Escaped, it is at most so long.

    Signs such as * may still make a part of it bold. It cannot leave its line, so it cannot pass for a line of ours.
    """
    pieces: list[str] = []
    size = 0
    for sign in " ".join(text.split()):
        piece = _SIGNS.get(sign, sign)
        size += len(piece)
        if size >= limit:
            return "".join(pieces) + _MORE
        pieces.append(piece)
    return "".join(pieces)


_SIGNS: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def time_of(when: datetime) -> str:
    """A time, which Slack shows by the reader's own clock."""
    fallback = when.strftime("%Y-%m-%d %H:%M UTC")
    return f"<!date^{int(when.timestamp())}^{{date_short_pretty}} {{time}}|{fallback}>"


def plain(text: str, limit: int) -> Piece:
    """A text without any markup."""
    return {"type": "plain_text", "text": cut(text, limit) or " ", "emoji": False}


def marked(text: str, limit: int = TEXT_LIMIT) -> Piece:
    """A text with markup of ours; people's texts in it are escaped."""
    return {"type": "mrkdwn", "text": cut(text, limit), "verbatim": True}


def header(text: str) -> Piece:
    return {"type": "header", "text": plain(" ".join(text.split()), HEADER_LIMIT)}


def section(text: str) -> Piece:
    """A paragraph with markup of ours."""
    return {"type": "section", "text": marked(text)}


def paragraph(text: str) -> Piece:
    """A paragraph of somebody's text, without any markup."""
    return {"type": "section", "text": plain(text, TEXT_LIMIT)}


def facts(pairs: list[tuple[str, str]]) -> Piece:
    """Names and values in two columns. The values are escaped."""
    shown = [marked(f"*{name}*\n{value}", FIELD_LIMIT) for name, value in pairs[:FIELDS_LIMIT]]
    return {"type": "section", "fields": shown}


def context(text: str) -> Piece:
    """A small line."""
    return {"type": "context", "elements": [marked(text)]}


def code(text: str) -> Piece:
    """Lines as they are, in a box."""
    text = cut(text, CODE_LIMIT) or " "
    element = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "elements": [element]}


def button(name: str, words: str, **more: Any) -> Piece:
    return {"type": "button", "action_id": name, "text": plain(words, 75), **more}
