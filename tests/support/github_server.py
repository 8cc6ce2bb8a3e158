"""Stands in for api.github.com: keeps the review comments of one pull request, and refuses what GitHub refuses."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

PULL = "/repos/vision-lab/segmenter/pulls/12"
TOKEN = "ghs_of_the_job"
FEW = 2
"""Comments on a page at most, so that there are several pages."""


class GitHubServer:
    """What it was sent and what it keeps.

    Attributes:
        url: where it listens.
        reviews: the bodies of the requests that made a review.
        comments: the comments of all reviews.
        read_only: whether it lets nobody write, as for the token of a fork.
    """

    def __init__(self, url: str, repository: Path) -> None:
        self.url = url
        self.repository = repository
        self.reviews: list[dict[str, Any]] = []
        self.comments: list[dict[str, Any]] = []
        self.read_only = False

    def refusal(self, review: dict[str, Any]) -> tuple[int, str] | None:
        """Status and message where GitHub would not take a review."""
        if self.read_only:
            return 403, "Resource not accessible by integration"
        if not review["body"] or review["event"] != "COMMENT":
            return 422, "Body is missing"
        for comment in review["comments"]:
            first, last = comment.get("start_line", comment["line"]), comment["line"]
            hunks = self._hunks(review["commit_id"], comment["path"])
            if comment["side"] != "RIGHT" or len(comment["body"]) > 65_536:
                return 422, "Comment is wrong"
            if "start_line" in comment and first >= last:
                return 422, "Pull request review thread start line must precede the end line"
            if not any(first in hunk and last in hunk for hunk in hunks):
                return 422, "Pull request review thread line must be part of the diff"
        return None

    def _hunks(self, head: str, path: str) -> list[range]:
        command = ["git", "diff", "--find-renames", f"main...{head}"]
        diff = subprocess.run(command, cwd=self.repository, check=True, capture_output=True, text=True).stdout
        heading = re.compile(rf"(?m)^\+\+\+ b/{re.escape(path)}\t?$")
        of_file = "".join(part for part in re.split(r"(?m)^(?=diff --git )", diff) if heading.search(part))
        found = re.finditer(r"(?m)^@@ -\S+ \+(\d+)(?:,(\d+))? @@", of_file)
        return [range(int(hunk[1]), int(hunk[1]) + int(hunk[2] or 1)) for hunk in found]


@contextmanager
def serving(repository: Path) -> Iterator[GitHubServer]:
    """A server for a pull request that branches off `main` of a repository."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            if address.path != f"{PULL}/comments" or not self._is_known():
                return self._answer(404, {"message": "Not Found"})
            page = int(parse_qs(address.query).get("page", ["1"])[0])
            following = f'<{server.url}{PULL}/comments?page={page + 1}>; rel="next"'
            is_last = page * FEW >= len(server.comments)
            return self._answer(200, server.comments[(page - 1) * FEW : page * FEW], "" if is_last else following)

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != f"{PULL}/reviews" or not self._is_known():
                return self._answer(404, {"message": "Not Found"})
            if refused := server.refusal(review):
                status, message = refused
                return self._answer(status, {"message": message})
            server.reviews.append(review)
            server.comments += review["comments"]
            return self._answer(200, {"id": len(server.reviews)})

        def _is_known(self) -> bool:
            return self.headers["Authorization"] == f"Bearer {TOKEN}"

        def _answer(self, status: int, body: object, link: str = "") -> None:
            self.send_response(status)
            if link:
                self.send_header("Link", link)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server = GitHubServer(f"http://127.0.0.1:{http.server_port}", repository)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
