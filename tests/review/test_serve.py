"""The served page: decisions are kept and applied, and strangers are refused."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import decisions_file
import pytest
from review_server import Served, decision, serving

from perfmod.review.serve import MOST_BYTES


@pytest.fixture
def served(project: Path) -> Iterator[Served]:
    with serving(project) as server:
        yield server


@pytest.fixture(scope="module")
def unimpressed(untouched: Path) -> Iterator[Served]:
    """A server for tests that are refused."""
    with serving(untouched) as server:
        yield server


def kept(project: Path) -> dict[str, str]:
    """Verdicts by rule."""
    return {row["rule"]: row["verdict"] for row in decisions_file.rows(project)}


def test_decisions_are_kept_and_applied(served: Served, project: Path) -> None:
    items = {item["rule"]: item for item in served.items()}
    rows = [decision(items["PM106"]), decision(items["PM202"], "rejected", note="short of pinned memory")]
    assert served.post("decisions", {"schema_version": 1, "decisions": rows}) == (200, {"saved": 2})
    assert kept(project) == {"PM106": "accepted", "PM202": "rejected"}
    served.post("decisions", {"schema_version": 1, "decisions": [decision(items["PM202"], "undecided")]})
    assert kept(project) == {"PM106": "accepted"}
    assert served.post("apply", {}) == (200, {"files": ["train.py"], "findings": 1, "left": []})
    assert "total += loss.detach()" in (project / "train.py").read_text()
    assert "num_workers" not in (project / "train.py").read_text()
    assert sorted(item["rule"] for item in served.items()) == ["PM201", "PM202"]


def test_a_page_from_before_cannot_decide_about_another_finding(served: Served) -> None:
    """Which of two it was has another meaning once there is one more of them, or one less."""
    item = next(item for item in served.items() if item["rule"] == "PM106")
    status, answer = served.post("decisions", {"decisions": [decision(item, of=item["of"] + 1)]})
    assert (status, "reload the page" in answer["error"]) == (409, True)


def test_a_file_that_was_edited_meanwhile_is_left_alone(served: Served, project: Path) -> None:
    served.post("decisions", {"decisions": [decision(item) for item in served.items()]})
    edited = (project / "train.py").read_text() + "# more\n"
    (project / "train.py").write_text(edited)
    status, answer = served.post("apply", {})
    assert (project / "train.py").read_text() == edited
    assert (status, answer.get("files")) in ((200, []), (500, None))
    assert "was edited while perfmod ran" in json.dumps(answer)


@pytest.mark.parametrize(("headers", "status", "complaint"), [
    ({"X_Perfmod_Token": ""}, 403, "lacks the token"),
    ({"X_Perfmod_Token": "guessed"}, 403, "lacks the token"),
    ({"Origin": "http://evil.example"}, 403, "another origin"),
    ({"Origin": "null"}, 403, "another origin"),
    ({"Sec_Fetch_Site": "cross-site"}, 403, "another origin"),
    ({"Sec_Fetch_Site": "same-site"}, 403, "another origin"),
    ({"Host": "evil.example"}, 403, "the address has to begin with http://127.0.0.1:"),
    ({"Host": "localhost"}, 403, "the address has to begin with http://127.0.0.1:"),
    ({"Content_Type": "text/plain"}, 415, "a request is JSON"),
    ({"Content_Length": str(MOST_BYTES + 1)}, 413, "at most"),
    ({"Content_Length": "\xb2"}, 413, "at most"),
    ({"Content_Length": "1" * 5000}, 413, "at most"),
])  # fmt: skip
def test_strangers_are_refused(
    unimpressed: Served, untouched: Path, headers: dict[str, str], status: int, complaint: str
) -> None:
    given, answer = unimpressed.post("decisions", {"decisions": []}, **headers)
    assert (given, complaint in answer["error"]) == (status, True), answer
    assert not (untouched / ".perfmod").exists()


ROW = {"path": "train.py", "fingerprint": "0" * 16, "occurrence": 1, "of": 1, "verdict": "accepted"}


@pytest.mark.parametrize(("document", "status", "complaint"), [
    ([], 400, 'no list "decisions"'),
    ({"decisions": [{}]}, 400, "a decision needs path"),
    ({"decisions": [ROW | {"verdict": "perhaps"}]}, 400, "a verdict is"),
    ({"decisions": [ROW | {"path": "../../etc/passwd"}]}, 409, "no such finding"),
    ({"decisions": [ROW]}, 409, "reload the page"),
])  # fmt: skip
def test_what_is_no_decision(
    unimpressed: Served, untouched: Path, document: object, status: int, complaint: str
) -> None:
    given, answer = unimpressed.post("decisions", document)
    assert (given, complaint in answer["error"]) == (status, True), answer
    assert not (untouched / ".perfmod").exists()


def test_pages_and_actions_that_are_not_there(unimpressed: Served) -> None:
    page = f"/{unimpressed.token}/"
    assert unimpressed.ask("GET", "/")[0] == 403
    assert unimpressed.ask("GET", f"{page}../train.py")[0] == 403
    assert unimpressed.ask("GET", page, headers={"Origin": "http://evil.example"})[0] == 403
    assert unimpressed.post("revert", {})[0] == 404
    assert unimpressed.ask("PUT", f"{page}apply", b"{}")[0] == 501


def test_it_listens_on_this_machine_only(unimpressed: Served) -> None:
    host, _, port = unimpressed.host.partition(":")
    assert host == "127.0.0.1"
    assert int(port) > 1023


def test_what_is_told_in_the_end(served: Served) -> None:
    served.post("decisions", {"decisions": [decision(served.items()[0])]})
    served.process.send_signal(signal.SIGINT)
    told, _ = served.process.communicate(timeout=60)
    assert "2 undecided, 1 accepted in .perfmod/decisions.json" in told
    assert served.process.returncode == 0
