"""A service desk and a model, as one small HTTP server: the outside world of this example.

It is a stand-in, and it behaves like the real ones: writes need a token, a write that repeats an idempotency key is
answered as before and not done again, and what was done can be looked up. Every request is written down, so that the
story can be checked from the other side.
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
    """One incident. ``history`` has every change: whose it was, and what stood there before and after it."""

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
    """What the service knows, and what it was asked."""

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
        self._let_go = threading.Event()

    def withhold_next_change(self) -> threading.Event:
        """Carry the next change out and keep the answer back. The event is set when it was carried out."""
        self._withheld = threading.Event()
        return self._withheld

    def let_go(self) -> None:
        """Keep no answer back any longer."""
        self._let_go.set()

    def serve(self, method: str, path: str, body: Any, token: str, key: str) -> Any:
        """The answer to a request. Raises Refused."""
        with self._lock:
            repeated = bool(key) and key in self._answers
            who = self._tokens.get(token, "")
            told = {"method": method, "path": path, "who": who, "key": key, "repeated": repeated}
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(told) + "\n")
            if repeated:
                return self._answers[key]
            answer = self._carry_out(method, path.strip("/").split("/"), body, who, key)
            if key:
                self._answers[key] = answer
        withheld = self._withheld if method == "PATCH" else None
        if withheld is not None:
            self._withheld = None
            withheld.set()
            self._let_go.wait()
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
            raise Refused(401, "this token is nobody's")
        match method, path[2:]:
            case "PATCH", []:
                before = {name: incident.fields[name] for name in body}
                incident.fields.update(body)
                incident.history.append({"who": who, "key": key, "before": before, "after": body})
                return {"before": before, "after": body}
            case "POST", ["notes"]:
                incident.notes.append({"who": who, "text": body["text"]})
                return {"number": len(incident.notes)}
        raise Refused(405, f"{method} is not for {'/'.join(path)}")


class Server(ThreadingHTTPServer):
    """The desk on a port of this machine, while the block lasts."""

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
        self.desk.let_go()
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
            self.close_connection = True  # whoever asked is gone

    def log_message(self, format: str, *args: Any) -> None:
        """The desk writes its own log."""
