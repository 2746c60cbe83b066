"""Members that queries and bodies of several routes share."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

MOST_ITEMS: Final = 1000
"""The largest page of a list."""

LONGEST_TEXT: Final = 4000

Limit = Annotated[int, msgspec.Meta(ge=1, le=MOST_ITEMS, description="How many items the page has at most.")]
After = Annotated[
    str, msgspec.Meta(max_length=1000, description="The `next` of an earlier page: the list goes on there.")
]
Time = Annotated[datetime, msgspec.Meta(tz=True, description="ISO 8601, with a time zone.")]
Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
Reason = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT, description="Why: kept in the audit.")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Value = Annotated[Any, msgspec.Meta(description='Any JSON; `{"$base64": …}` stands for bytes.')]


class PageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of a list."""

    limit: Limit = 100
    after: After | None = None


class ReasonBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why something is done."""

    reason: Reason = ""
