"""The client of this example's service: one request, one answer, an exception for each kind of error."""

from __future__ import annotations

import http.client
import json
import os
from typing import Any

from holdfast import RetryableError, TerminalError

ADDRESS = "INCIDENT_DESK"
"""The environment variable with the service's host and port."""


def ask(method: str, path: str, body: Any = None, *, token: str = "", key: str = "") -> Any:
    """Send a request and give the answer.

    A refusal of the service is terminal; a request that failed before it was sent may be tried again. A connection that
    breaks afterwards raises an OSError, and Holdfast then knows that the outcome is unknown.
    """
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if key:
        headers["Idempotency-Key"] = key
    connection = http.client.HTTPConnection(os.environ[ADDRESS], timeout=30)
    try:
        connection.connect()
    except OSError as error:
        raise RetryableError(f"the service cannot be reached: {error}") from error
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    finally:
        connection.close()
    if response.status >= 500:
        raise RetryableError(f"{method} {path}: {response.status} {answer['error']}")
    if response.status >= 400:
        raise TerminalError(f"{method} {path}: {response.status} {answer['error']}")
    return answer
