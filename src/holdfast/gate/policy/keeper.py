"""Keeps the policy that is in force, and loads a changed file once it is valid."""

from __future__ import annotations

import logging
from pathlib import Path

from holdfast.errors import InvalidPolicy
from holdfast.gate.policy.policy import NO_POLICY, Policy, content, parse

log = logging.getLogger("holdfast.policy")


class PolicyKeeper:
    """The policy in force. A broken or missing file never replaces a policy that works, but it is always logged.

    ``trouble`` is the problem of the present file, None where it is the policy in force. The constructor raises
    InvalidPolicy: nothing begins under a policy that cannot be read.
    """

    def __init__(self, source: str | Path | Policy | None) -> None:
        self.trouble: str | None = None
        self._path: Path | None = None
        self._content = b""
        if isinstance(source, str | Path):
            self._path = Path(source)
            self._content = content(source)
            self.current = parse(self._content, str(source))
        else:
            self.current = NO_POLICY if source is None else source

    def reload(self) -> bool:
        """Load the file if its content changed; gives whether another policy is in force now. It never raises."""
        if self._path is None:
            return False
        try:
            data = content(self._path)
            if data == self._content:
                self._settle()
                return False
            policy = parse(data, str(self._path))
        except InvalidPolicy as error:
            self._complain(str(error))
            return False
        except Exception as error:  # whatever error the file causes, the policy that works stays in force
            self._complain(f"{self._path}: it cannot be read: {type(error).__name__}: {error}")
            return False
        log.info("policy %s is in force now, after %s: %s", policy.hash, self.current.hash, policy.source)
        self._content, self.current, self.trouble = data, policy, None
        return True

    def _complain(self, trouble: str) -> None:
        if trouble != self.trouble:  # each problem is logged once, however often the file is read
            log.error("the policy's file cannot be used, so %s stays in force:\n%s", self.current.hash, trouble)
        self.trouble = trouble

    def _settle(self) -> None:
        if self.trouble is not None:
            log.info("the policy's file is again the one in force, %s", self.current.hash)
        self.trouble = None
