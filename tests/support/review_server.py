"""`perfmod review --serve`, and what its page sends."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import forked_python
from attrs import frozen


@frozen
class Served:
    """A server that runs, and the token of its page."""

    process: subprocess.Popen[str]
    host: str
    token: str

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body of an answer."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def post(self, name: str, document: object, **headers: str) -> tuple[int, Any]:
        """Like the page; `headers` replace its own, `_` for `-`, and are left out where they are empty."""
        sent = {"Content-Type": "application/json", "X-Perfmod-Token": self.token}
        sent |= {key.replace("_", "-"): value for key, value in headers.items()}
        sent = {key: value for key, value in sent.items() if value}
        status, body = self.ask("POST", f"/{self.token}/{name}", json.dumps(document).encode(), sent)
        return status, json.loads(body)

    def items(self) -> list[dict[str, Any]]:
        """What the page shows."""
        status, page = self.ask("GET", f"/{self.token}/")
        assert status == 200
        found = re.search(rb'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
        assert found is not None
        items: list[dict[str, Any]] = json.loads(found[1])["items"]
        return items


@contextmanager
def serving(project: Path, *arguments: str) -> Iterator[Served]:
    """The server of a project."""
    command = [forked_python.perfmod(), "-u", "-m", "perfmod", "review", ".", "--serve", *arguments]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().split()[0])
        try:
            yield Served(process, address.netloc, address.path.strip("/"))
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


def decision(item: dict[str, Any], verdict: str = "accepted", **changed: object) -> dict[str, object]:
    """What the page sends about an item."""
    names = ("path", "rule", "scope", "fingerprint", "occurrence", "of", "code", "note")
    return {name: item[name] for name in names} | {"verdict": verdict} | changed
