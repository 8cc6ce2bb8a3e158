"""What earlier verifications say about findings, from the records that `perfmod verify --report` left."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfmod.errors import UsageMistake, explain
from perfmod.review.items import Proof
from perfmod.roots import from_here, shown
from perfmod.transforms.finding import Finding
from perfmod.verify.evidence import Evidence
from perfmod.verify.report import evidence_json

RECORD = "evidence.json"


class Proofs:
    """Records, the latest first."""

    def __init__(self, records: Sequence[tuple[Path, Evidence]], folders: Sequence[Path]) -> None:
        """`folders` are those that paths of files in a record may be relative to."""
        self._records = sorted(records, key=lambda pair: pair[1].created, reverse=True)
        self._folders = folders

    @classmethod
    def read(cls, root: Path, cwd: Path, named: Sequence[Path]) -> Proofs:
        """The records that lie in `.perfmod` of a project, and others that are named, as files or as folders.

        Raises `UsageMistake` where a named one is none.
        """
        found = [(path, record) for path in (root / ".perfmod").rglob(RECORD) if (record := _record(path)) is not None]
        for path in named:
            file = path / RECORD if path.is_dir() else path
            try:
                found.append((file, evidence_json.load(file.read_text("utf-8"))))
            except OSError as error:
                raise UsageMistake(f"{shown(file)}: cannot be read: {explain(error)}") from error
            except ValueError as error:
                raise UsageMistake(f"{shown(file)}: is no evidence of a verification: {error}") from error
        return cls(found, (cwd, root))

    def of(self, finding: Finding) -> Proof | None:
        """What the latest record says that knows the finding; the latest that is not stale, where there is one."""
        proofs = list(self._of(finding))
        return next((proof for proof in proofs if not proof.is_stale), proofs[0] if proofs else None)

    def _of(self, finding: Finding) -> Iterator[Proof]:
        for path, record in self._records:
            for row in record.rules:
                if row.code == finding.code and finding.fingerprint in row.fingerprints:
                    environment = record.environment
                    place = environment.gpu if record.device == "cuda" else "the CPU"
                    kept = tuple(each.code for each in record.rules if not each.withdrawn)
                    is_of_all = row.ratio is None and record.speed is not None and row.code in kept
                    gain = record.speed if is_of_all and record.speed is not None else row
                    yield Proof(
                        verdict=row.equality.value,
                        ratio=gain.ratio,
                        low=gain.low,
                        high=gain.high,
                        together=kept if is_of_all and len(kept) > 1 else (),
                        syncs_removed=row.syncs_removed,
                        where=", ".join(filter(None, (place, environment.torch and f"torch {environment.torch}"))),
                        source=shown(from_here(path)),
                        is_stale=self._is_stale(record),
                    )

    def _is_stale(self, record: Evidence) -> bool:
        return not all(
            any(_digest(folder / file.path) == file.sha256 for folder in self._folders) for file in record.files
        )


def _record(path: Path) -> Evidence | None:
    try:
        return evidence_json.load(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
