"""Errors of the installation: its operator must act, or time mends it, or Holdfast itself is at fault."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors.root import HoldfastError


class OperatorError(HoldfastError):
    """The installation must change."""

    code = "operator"
    http_status = 503


class UnsupportedStore(OperatorError):
    """The store's URL, driver or version cannot be used."""

    code = "unsupported_store"


class UnsupportedWakeups(OperatorError):
    """The URL of the wake-ups, or the object given for them, cannot be used: mend it, or leave it out."""

    code = "unsupported_wakeups"


class ExtraMissing(OperatorError):
    """Something optional is asked for, and the dependency that does it is not installed: install the named extra."""

    code = "extra_missing"


class SchemaTooNew(OperatorError):
    """The database was written by a newer Holdfast: upgrade this one."""

    code = "schema_too_new"


class StoreReadOnly(OperatorError):
    """The database cannot be written to: mend its permissions, or open it as a client only."""

    code = "store_read_only"


class StoreCorrupt(OperatorError):
    """The database is damaged or is not one of ours: restore it from a backup, or name another file."""

    code = "store_corrupt"


class StoreFull(OperatorError):
    """No space is left for the database: free some; the engine goes on by itself."""

    code = "store_full"
    http_status = 507


class StoreLost(OperatorError):
    """The database was deleted or replaced while it was in use: put its file back, lead its name to the right server,
    or restore it, and restart every process that uses it. Nothing was acknowledged since that was noticed."""

    code = "store_lost"


class AddressTaken(OperatorError):
    """The server's address cannot be listened on: stop whoever listens there, or choose another port."""

    code = "address_taken"


class KeyLocked(OperatorError):
    """A signing key of the audit, or of an executor, is not here or cannot be opened: set HOLDFAST_KEY_PASSPHRASE.

    Until then entries wait, unsealed, and effects of that executor are not begun.
    """

    code = "key_locked"


class ReceiptRejected(OperatorError):
    """What came of an effect is not signed by a key of its executor: find out who carried it out, with which key."""

    code = "receipt_rejected"


class SecretMissing(OperatorError):
    """No secret of that name is given to this worker: set HOLDFAST_SECRET_<NAME>, or HOLDFAST_SECRETS."""

    code = "secret_missing"


class SecretRefused(SecretMissing):
    """The tenant may not use that secret for this, or not towards this host: let the operator add the line of the
    message to the file of HOLDFAST_SECRETS_TABLE, or name another secret. Nothing was sent."""

    code = "secret_refused"


class InvalidSettings(OperatorError):
    """A file of settings, or a variable, cannot be used: mend each place that the message names."""

    code = "invalid_settings"


class InvalidOperatorKey(OperatorError):
    """The file of the operator's key is missing, cannot be made, or is not safe: do what the message says."""

    code = "invalid_operator_key"


class InvalidPolicy(OperatorError):
    """The policy's file cannot be used: mend each place that the message names; ``holdfast policy check`` reads it.

    ``problems`` are the places, each as line, column (both from 1, or 0 for the file as a whole) and what is wrong.
    """

    code = "invalid_policy"
    http_status = 422

    def __init__(self, source: str, problems: Sequence[tuple[int, int, str]]) -> None:
        self.source = source
        self.problems = tuple(problems)
        places = ((f"{source}:{line}:{column}" if line else source, what) for line, column, what in problems)
        super().__init__("\n".join(f"{place}: {what}" for place, what in places))


class StoreUnavailable(HoldfastError):
    """The store did not answer. Nothing is lost; the engine tries again by itself."""

    code = "store_unavailable"
    http_status = 503


class EngineError(HoldfastError):
    """A defect of Holdfast itself: please report it with the run's journal."""

    code = "engine"


class LawBroken(EngineError):
    """An event would break a law of the journal, so it was refused."""

    code = "law_broken"

    def __init__(self, law: str, detail: str) -> None:
        self.law = law
        super().__init__(f"law {law}: {detail}")
