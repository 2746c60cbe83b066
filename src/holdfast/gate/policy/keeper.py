"""Keeps what an operator's file says in force, such as the policy, and loads a changed file once it is valid."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from holdfast.errors import InvalidPolicy, InvalidSettings
from holdfast.gate.policy.policy import NO_POLICY, Policy, content, parse

log = logging.getLogger("holdfast.policy")


class ParsedFile(Protocol):
    """What a file says. ``hash`` is that of its bytes, ``source`` its name."""

    @property
    def hash(self) -> str: ...
    @property
    def source(self) -> str: ...


F = TypeVar("F", bound=ParsedFile)


class FileKeeper(Generic[F]):
    """What a file says, as far as it was valid. A broken or missing file never replaces one that works, but it is
    always logged.

    ``trouble`` is the problem of the present file, None where it is the one in force. The constructor raises what
    ``parse`` raises, or InvalidPolicy: nothing begins under a file that cannot be read. ``word`` names it in the log.
    """

    def __init__(self, path: str | Path, parse: Callable[[bytes, str], F], word: str) -> None:
        self.trouble: str | None = None
        self._path: Path | None = Path(path)
        self._parse = parse
        self._word = word
        self._content = content(path)
        self.current: F = parse(self._content, str(path))

    def reload(self) -> bool:
        """Load the file if its content changed; gives whether another one is in force now. It never raises."""
        if self._path is None:
            return False
        try:
            data = content(self._path)
            if data == self._content:
                self._settle()
                return False
            parsed = self._parse(data, str(self._path))
        except (InvalidPolicy, InvalidSettings) as error:
            self._complain(str(error))
            return False
        except Exception as error:  # whatever error the file causes, the one that works stays in force
            self._complain(f"{self._path}: it cannot be read: {type(error).__name__}: {error}")
            return False
        log.info("%s %s is in force now, after %s: %s", self._word, parsed.hash, self.current.hash, parsed.source)
        self._content, self.current, self.trouble = data, parsed, None
        return True

    def _complain(self, trouble: str) -> None:
        if trouble != self.trouble:  # each problem is logged once, however often the file is read
            log.error("the %s's file cannot be used, so %s stays in force:\n%s", self._word, self.current.hash, trouble)
        self.trouble = trouble

    def _settle(self) -> None:
        if self.trouble is not None:
            log.info("the %s's file is again the one in force, %s", self._word, self.current.hash)
        self.trouble = None


class PolicyKeeper(FileKeeper[Policy]):
    """The policy in force: that of a file, or one that never changes. Raises InvalidPolicy."""

    def __init__(self, source: str | Path | Policy | None) -> None:
        if isinstance(source, str | Path):
            super().__init__(source, parse, "policy")
            return
        self.trouble, self._path = None, None
        self.current = NO_POLICY if source is None else source
