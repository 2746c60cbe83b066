"""Who is one person and who are two, told by their names alone.

Two people are two only where their names differ in letters that one can see. Capitals, other codes for the same letter,
blanks and invisible characters make no other person. A name that is given has no invisible characters; what older
versions recorded may have them, and is compared all the same.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# What Unicode calls default ignorable, and a blank that it takes for a sign.
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})

NAME: Final = "a name, without blanks around it, double blanks or invisible characters"
"""What a name must be, for messages."""


def is_name(text: object) -> bool:
    """Whether it may be given as a person's name: it reads as it is written."""
    if not isinstance(text, str) or not text.isprintable() or _INVISIBLE.search(text):
        return False
    return text == text.strip() and "  " not in text and bool(person(text))


def person(name: str) -> str:
    """What tells people apart: equal for two names that only differ in how they are written."""
    while True:
        folded = unicodedata.normalize("NFKC", _INVISIBLE.sub("", name)).casefold()
        folded = "".join([letter for letter in folded if unicodedata.category(letter) not in _UNSEEN])
        if folded == name:
            return folded
        name = folded
