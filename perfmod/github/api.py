"""GitHub's REST interface, as far as a review needs it."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException
from typing import Any

from attrs import field, frozen

from perfmod.errors import Failure
from perfmod.github.pull import PullRequest

_PATIENCE = 30.0
"""Seconds for one answer."""
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')


class NotAllowed(Failure):
    """The token may not do that: pull requests from forks get one that can only read."""


@frozen
class GitHub:
    """The interface at an address, asked with a token."""

    url: str
    token: str = field(repr=False)

    def comments(self, pull: PullRequest) -> list[str]:
        """The texts of all review comments. Raises `Failure`."""
        address: str | None = f"{self._address(pull)}/comments?per_page=100"
        bodies: list[str] = []
        while address:
            answer, address = self._ask(address)
            bodies += [str(comment.get("body") or "") for comment in answer]
        return bodies

    def review(self, pull: PullRequest, payload: Mapping[str, object]) -> None:
        """Make a review. Raises `NotAllowed` or another `Failure`."""
        self._ask(f"{self._address(pull)}/reviews", payload)

    def _address(self, pull: PullRequest) -> str:
        return f"{self.url.rstrip('/')}/repos/{pull.repository}/pulls/{pull.number}"

    def _ask(self, address: str, payload: Mapping[str, object] | None = None) -> tuple[Any, str | None]:
        """The answer, and the address of its next page."""
        request = urllib.request.Request(
            address,
            data=None if payload is None else json.dumps(payload).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "User-Agent": "perfmod",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
                following = _NEXT.search(answer.headers.get("Link") or "")
                return json.load(answer), following[1] if following else None
        except urllib.error.HTTPError as error:
            kind = NotAllowed if error.code in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND) else Failure
            raise kind(f"GitHub answered {error.code} {_words(error)}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise Failure(f"GitHub could not be reached: {error}") from error


def _words(error: urllib.error.HTTPError) -> str:
    try:
        answer = json.load(error)
        return "; ".join([str(answer["message"]), *map(str, answer.get("errors") or ())])
    except (OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return str(error.reason)
