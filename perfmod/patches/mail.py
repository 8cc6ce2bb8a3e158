"""A patch as `git format-patch` writes it: a mail that `git am` makes a commit of."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta, timezone
from email.header import Header
from email.utils import format_datetime, formataddr
from pathlib import Path

from attrs import evolve, frozen

from perfmod.errors import PerfmodError, UsageMistake
from perfmod.git import git
from perfmod.patches.messages import Message
from perfmod.roots import shown

_IDENT = re.compile(r"(.*) <(.*)> (\d+) ([+-])(\d\d)(\d\d)")
_NAMED = re.compile(r"\s*([^<>\n]*?)\s*<([^<>\s]+)>\s*")
_FIRST_LINE = b"From " + b"0" * 40 + b" Mon Sep 17 00:00:00 2001\n"
"""How git's mails begin, so that they are known from others; nobody reads the date."""
_LONGEST_NAME = 60
"""Characters of a file's name, apart from the number and the ending."""


@frozen
class Author:
    """Who writes the mails, and when."""

    name: str
    address: str
    date: datetime

    @classmethod
    def of(cls, folder: Path) -> Author:
        """Whom git would name for a commit in a folder; perfmod, where git knows nobody."""
        try:
            ident = git(folder, "var", "GIT_AUTHOR_IDENT").decode("utf-8", "backslashreplace")
        except PerfmodError:
            ident = ""
        found = _IDENT.fullmatch(ident.strip())
        if found is None or not found[2].isascii():
            return cls("perfmod", "perfmod@localhost", datetime.fromtimestamp(int(time.time()), timezone.utc))
        name, address, seconds, sign, hours, minutes = found.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        zone = timezone(-offset if sign == "-" else offset)
        return cls(name, address, datetime.fromtimestamp(int(seconds), zone))

    def called(self, name: str) -> Author:
        """Somebody else at the same time, as `Name <address>`. Raises `UsageMistake` where that is no such thing."""
        found = _NAMED.fullmatch(name)
        if found is None or not found[1] or not found[2].isascii():
            raise UsageMistake(f"{shown(name)}: is no author; write it as `Name <address>`")
        return evolve(self, name=found[1], address=found[2])


def mail(author: Author, message: Message, diff: bytes, number: int, total: int) -> bytes:
    """One mail of a series, `number` from 1."""
    subject = f"[PATCH {number}/{total}] {message.subject}"
    headers = (
        f"From: {formataddr((author.name, author.address))}",
        f"Date: {format_datetime(author.date)}",
        f"Subject: {subject if subject.isascii() else Header(subject, 'utf-8', header_name='Subject').encode()}",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=UTF-8",
        "Content-Transfer-Encoding: 8bit",
    )
    text = "\n".join((*headers, "", message.body, "---", "", ""))
    return _FIRST_LINE + text.encode() + diff


def file_name(number: int, label: str) -> str:
    """How the file of a mail is called: `0001-PM201-loader-without-workers.patch`."""
    words = re.sub(r"[^A-Za-z0-9_]+", "-", label).strip("-")[:_LONGEST_NAME].strip("-")
    return f"{number:04}-{words}.patch" if words else f"{number:04}.patch"
