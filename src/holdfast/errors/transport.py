"""Errors of transports: a call of the outside world that a definition makes has failed. Raised inside workflows."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors.root import HoldfastError


class TransportFailed(HoldfastError):
    """A transport's call failed. ``members`` say how: ``status``, ``body``, ``url`` and the like, without secrets.

    ``retryable`` is whether another attempt may mend it, ``is_unknown`` whether what was sent may have been done.
    """

    code = "transport_failed"
    http_status = 502

    def __init__(
        self,
        message: str = "",
        *,
        members: Mapping[str, object] | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        is_unknown: bool = False,
    ) -> None:
        super().__init__(message)
        self.members = dict(members or {})
        self.retryable = retryable
        self.retry_after = retry_after
        self.is_unknown = is_unknown


class ConnectionFailed(TransportFailed):
    """No connection, or one that broke: look whether the host's name, its port and its certificate are right."""

    code = "connection_failed"


class TransportTimeout(TransportFailed, TimeoutError):
    """No answer in time: give the call more time, or find out why the other side is slow."""

    code = "transport_timeout"
    http_status = 504


class ServiceFailed(TransportFailed):
    """The other side answered that it failed, or cannot just now: try again later, or tell whoever runs it."""

    code = "service_failed"


class RequestRefused(TransportFailed):
    """The other side refused the request: mend what it says is wrong. Its status and its words are in ``members``."""

    code = "request_refused"


class NotAuthorised(RequestRefused):
    """The other side wants other credentials: look at the connector's ``auth`` and at the secret that it names."""

    code = "not_authorised"


class AnswerUnusable(TransportFailed):
    """The answer is too large, is not what it says it is, or tells of errors: the message says which."""

    code = "answer_unusable"


class AddressRefused(TransportFailed):
    """The address is a private one, or a redirect leads elsewhere than it may: see HOLDFAST_PRIVATE_HOSTS."""

    code = "address_refused"
