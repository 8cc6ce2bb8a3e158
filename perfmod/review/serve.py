"""The review page on a port of this machine: decisions are kept as they are made, and applied from the page.

Whoever talks to the server has to know the token that is in the page's address. Requests that a browser makes for pages
of another origin are refused whether they know it or not, and so are names other than that of this machine, under which
a strange page could reach it. `perfmod.review.page` describes what the page sends.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from attrs import frozen

from perfmod import applying
from perfmod.codemods.results import Outcome
from perfmod.errors import Failure, PerfmodError, UsageMistake
from perfmod.review.items import Verdict
from perfmod.review.page import Server
from perfmod.review.session import Review

_HOST = "127.0.0.1"
MOST_BYTES = 4_000_000
"""Bytes of a request: some ten thousand decisions."""
_PATIENCE = 30.0
"""Seconds for which a connection may say nothing."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@frozen
class Refused(Exception):
    """A request that is not answered."""

    status: HTTPStatus
    reason: str


class ReviewServer(ThreadingHTTPServer):
    """Serves one review until it is shut down."""

    daemon_threads = True

    def __init__(self, opened: Callable[[], Review], render: Callable[[Review, Server], bytes], cwd: Path) -> None:
        """`opened` gives the review as things stand, and `render` its page. Raises what they raise, and `OSError`."""
        super().__init__((_HOST, 0), _Handler)
        self.token = secrets.token_urlsafe(24)
        self.review = opened()
        self._opened, self._render, self._cwd = opened, render, cwd
        self._lock = threading.Lock()

    @property
    def origin(self) -> str:
        """What its pages are from."""
        return f"http://{_HOST}:{self.server_address[1]}"

    @property
    def address(self) -> str:
        """Where the page is, with the token."""
        return f"{self.origin}/{self.token}/"

    def server_close(self) -> None:
        """Stop listening, once what is being written is written as a whole."""
        super().server_close()
        with self._lock:
            pass

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, as in the base class
        """Tell of an error of ours on stderr; whoever goes away before the answer is there is nothing to tell of."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def page(self) -> bytes:
        """The page, of the files as they are now."""
        with self._lock:
            self.review = self._opened()
            return self._render(self.review, Server(self.address, self.token))

    def decide(self, request: object) -> dict[str, object]:
        """Keep decisions. Raises `Refused` and `Failure`."""
        rows = request.get("decisions") if isinstance(request, dict) else None
        if not isinstance(rows, list):
            raise Refused(HTTPStatus.BAD_REQUEST, 'the request has no list "decisions"')
        with self._lock:
            known = {
                (item.path, item.finding.fingerprint, item.occurrence): item.key for item in self.review.items.values()
            }
            wanted: dict[tuple[Verdict, str], list[str]] = {}
            for row in rows:
                verdict, note, identity = _decision(row)
                if identity not in known:
                    told = f"{identity[0]} has no such finding any more: reload the page"
                    raise Refused(HTTPStatus.CONFLICT, told)
                wanted.setdefault((verdict, note), []).append(known[identity])
            for (verdict, note), keys in wanted.items():
                self.review.decide(keys, verdict, note)
        return {"saved": len(rows)}

    def apply(self) -> dict[str, object]:
        """Write what was accepted. Raises `Failure`."""
        with self._lock:
            accepted = self.review.accepted()
            written = applying.write(accepted, self._cwd)
            failed = [each for each in written if each.result.outcome is Outcome.FAILED]
            changed = [each.result.path for each in written if each.result.outcome is Outcome.CHANGED]
            made = {(each.result.path, finding.fingerprint) for each in written for finding in each.result.applied}
            left = [
                {
                    "path": item.finding.path,
                    "rule": item.finding.code,
                    "reason": next(
                        (each.result.reason for each in failed if each.result.path == item.finding.path),
                        "it is only right together with another rewrite",
                    ),
                }
                for item in self.review.items.values()
                if item.verdict is Verdict.ACCEPTED and (item.finding.path, item.finding.fingerprint) not in made
            ]
            findings = sum(len(each.result.applied) for each in written)
            self.review = self._opened()
        return {"files": changed, "findings": findings, "left": left}


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: ReviewServer
    timeout = _PATIENCE
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "perfmod", ""

    def do_GET(self) -> None:
        """The page."""
        try:
            self._require_own_page()
            self._require_token(self.path.strip("/"), "the address lacks the token that perfmod printed")
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page())
        except Refused as error:
            self._answer(error.status, "text/plain; charset=utf-8", f"{error.reason}\n".encode())
        except PerfmodError as error:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", f"{error}\n".encode())

    def do_POST(self) -> None:
        """A decision, or applying."""
        try:
            body = self._body()
            self._require_own_page()
            self._require_token(self.headers.get("X-Perfmod-Token", ""), "the request lacks the token of the page")
            self._json(HTTPStatus.OK, self._done(body))
        except Refused as error:
            self._json(error.status, {"error": error.reason})
        except UsageMistake as error:
            self._json(HTTPStatus.CONFLICT, {"error": str(error)})
        except Failure as error:
            self._json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)})

    def _done(self, body: bytes) -> dict[str, object]:
        """Do what the address names."""
        if self.path == f"/{self.server.token}/apply":
            return self.server.apply()
        if self.path != f"/{self.server.token}/decisions":
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such action")
        try:
            return self.server.decide(json.loads(body))
        except (ValueError, RecursionError) as error:
            raise Refused(HTTPStatus.BAD_REQUEST, f"the request is not valid JSON: {error}") from error

    def _require_token(self, given: str, complaint: str) -> None:
        if not hmac.compare_digest(given.encode(), self.server.token.encode()):
            raise Refused(HTTPStatus.FORBIDDEN, complaint)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > len(str(MOST_BYTES)) or int(length) > MOST_BYTES:
            self.close_connection = True
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has a length of at most {MOST_BYTES} bytes")
        body = self.rfile.read(int(length))
        if self.headers.get_content_type() != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a request is JSON")
        return body

    def _require_own_page(self) -> None:
        """Raises `Refused` for what a browser does for another page, and for another name of this machine."""
        own = self.server.origin
        if f"http://{self.headers.get('Host', '')}" != own:
            raise Refused(HTTPStatus.FORBIDDEN, f"the address has to begin with {own}/")
        if self.headers.get("Origin", own) != own or self.headers.get("Sec-Fetch-Site", "none") not in (
            "same-origin",
            "none",
        ):
            raise Refused(HTTPStatus.FORBIDDEN, "a page of another origin may not do this")

    def _json(self, status: HTTPStatus, document: dict[str, object]) -> None:
        self._answer(status, "application/json", json.dumps(document).encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, names and types of the base class
        """Says nothing: the terminal tells what was decided in the end."""


def _decision(row: object) -> tuple[Verdict, str, tuple[str, str, int]]:
    """Verdict, note and identity of a row. Raises `Refused`."""
    kinds = {"path": str, "fingerprint": str, "occurrence": int, "verdict": str}
    if not isinstance(row, dict) or not all(isinstance(row.get(name), kind) for name, kind in kinds.items()):
        raise Refused(HTTPStatus.BAD_REQUEST, f"a decision needs {', '.join(kinds)}")
    note = row.get("note", "")
    if row["verdict"] not in {verdict.value for verdict in Verdict} or not isinstance(note, str):
        raise Refused(HTTPStatus.BAD_REQUEST, "a verdict is accepted, rejected or undecided, and a note is a string")
    return Verdict(row["verdict"]), note, (row["path"], row["fingerprint"], row["occurrence"])
