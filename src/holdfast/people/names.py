"""Whether two names mean the same person.

Two names mean two people only if they differ in visible letters. Capitals, other codes for the same letter, blanks and
invisible characters make no difference. New names have no invisible characters; names that older versions recorded may
have them, and are compared by the same rule.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

# The characters that Unicode calls default ignorable, and a blank that it counts as a sign.
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})

NAME: Final = "a name, without blanks around it, double blanks or invisible characters"
"""The rule for names, for messages."""


def is_name(text: object) -> bool:
    """Whether it may be used as a new person's name."""
    if not isinstance(text, str) or not text.isprintable() or _INVISIBLE.search(text):
        return False
    return text == text.strip() and "  " not in text and bool(person(text))


@lru_cache(4096)  # the same few names are compared again and again, for each task of an inbox
def person(name: str) -> str:
    """The form by which people are compared: equal for two names of the same person."""
    while True:
        folded = unicodedata.normalize("NFKC", _INVISIBLE.sub("", name)).casefold()
        folded = "".join([letter for letter in folded if unicodedata.category(letter) not in _UNSEEN])
        if folded == name:
            return folded
        name = folded
