"""A form as the journal keeps it: an invocation of the kind ``form`` whose input is ``[[shown], terms]``.

The terms are the form itself, who may answer and by when. They belong to the task that was made of them, and newer code
may ask with others: a replayed call is the same where its title and what it shows are.
"""

from __future__ import annotations

from typing import Final

import cbor2

from holdfast.journal.payload import Payload

FORM: Final = "form"


def is_same_form(one: Payload, other: Payload) -> bool:
    """Whether two recorded questions show the same."""
    if one.blob is not None or other.blob is not None:
        return one == other
    shown: bool = cbor2.loads(one.data)[0] == cbor2.loads(other.data)[0]
    return shown
