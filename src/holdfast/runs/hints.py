"""Commands that messages suggest, written so that they can be copied and run."""

from __future__ import annotations

import shlex

from holdfast.runs.birth import DEFAULT_TENANT


def command(*words: str, tenant: str) -> str:
    """A ``holdfast`` command line. The tenant is named where it is not the default one."""
    named = () if tenant == DEFAULT_TENANT else ("--tenant", tenant)
    return shlex.join(("holdfast", *words, *named))
