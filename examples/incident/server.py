"""A service desk and a model, as one small HTTP server: the outside world of this example.

It behaves like real services: writes need a token, a write that repeats an idempotency key gets the earlier answer and
is not done again, and earlier changes can be read. Every request is logged, so that a test can compare the log with
the receipts.
"""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

USD_PER_WORD = 0.0001


@dataclass
class Incident:
    """One incident. ``history`` has every change: who made it, and the fields before and after it."""

    title: str
    text: str
    fields: dict[str, str]
    notes: list[dict[str, str]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Desk:
    """The state of the service, and its log of requests."""

    def __init__(self, tokens: dict[str, str], log: Path) -> None:
        self.incidents = {
            "INC-7": Incident(
                "Checkout is slow",
                "Since 9:40 every third checkout takes longer than ten seconds; the payment queue is growing.",
                {"state": "new", "priority": "3", "team": "service desk"},
            )
        }
        self._tokens = tokens
        self._log = log
        self._answers: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._withheld: threading.Event | None = None
        self._released = threading.Event()

    def withhold_next_change(self) -> threading.Event:
        """Make the next change, and withhold its answer. The event is set when the change was made."""
        self._withheld = threading.Event()
        return self._withheld

    def release(self) -> None:
        """Withhold no answer any longer."""
        self._released.set()

    def serve(self, method: str, path: str, body: Any, token: str, key: str) -> Any:
        """The answer to a request. Raises Refused."""
        with self._lock:
            repeated = bool(key) and key in self._answers
            who = self._tokens.get(token, "")
            request = {"method": method, "path": path, "who": who, "key": key, "repeated": repeated}
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(request) + "\n")
            if repeated:
                return self._answers[key]
            answer = self._carry_out(method, path.strip("/").split("/"), body, who, key)
            if key:
                self._answers[key] = answer
        withheld = self._withheld if method == "PATCH" else None
        if withheld is not None:
            self._withheld = None
            withheld.set()
            self._released.wait()
        return answer

    def _carry_out(self, method: str, path: list[str], body: Any, who: str, key: str) -> Any:
        if (method, path) == ("POST", ["model", "summarise"]):
            words = body["text"].split()
            return {"summary": " ".join(words[:8]) + " …", "usd": round(len(words) * USD_PER_WORD, 6)}
        if path[0] != "incidents" or len(path) < 2 or path[1] not in self.incidents:
            raise Refused(404, f"there is no {'/'.join(path)}")
        incident = self.incidents[path[1]]
        if method == "GET":
            return asdict(incident)
        if not who:
            raise Refused(401, "this token is not valid")
        match method, path[2:]:
            case "PATCH", []:
                before = {name: incident.fields[name] for name in body}
                incident.fields.update(body)
                incident.history.append({"who": who, "key": key, "before": before, "after": body})
                return {"before": before, "after": body}
            case "POST", ["notes"]:
                incident.notes.append({"who": who, "text": body["text"]})
                return {"number": len(incident.notes)}
        raise Refused(405, f"{'/'.join(path)} does not take {method}")


class Server(ThreadingHTTPServer):
    """The desk on a local port, while the block lasts."""

    daemon_threads = True

    def __init__(self, desk: Desk) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.desk = desk
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.desk.release()
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        key = self.headers.get("Idempotency-Key") or ""
        try:
            status, answer = 200, self.server.desk.serve(self.command, self.path, body, token, key)
        except Refused as error:
            status, answer = error.status, {"error": str(error)}
        data = json.dumps(answer).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True  # the client is gone

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing here: the desk has its own log."""
