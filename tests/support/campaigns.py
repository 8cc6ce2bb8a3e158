"""Campaigns as rows, written by hand: projects of all outcomes, and as many of them as are asked for."""

from __future__ import annotations

from attrs import evolve

from perfmod.migrate.results import Analysis, Branch, Cause, FileRow, FindingRow, Outcome, Step, Verification
from perfmod.migrate.rows import CampaignRow, ProjectRow, VerdictRow

ATTACK = "</script><img src=x onerror=alert(1)>"
RULES = ("PM101", "PM102", "PM204", "PM301", "PM405")
KINDS = ("training", "library", "notebooks", "")


def finding(number: int, code: str, *, question: str = "") -> FindingRow:
    state = "open-question" if question else "rewritten"
    return FindingRow(f"train_{number % 3}.py", number + 1, code, state, "bitwise", f"f{number}", "A message", question)


def step(number: int, code: str, branch: str = "") -> Step:
    return Step(
        subject=f"Rewrite {code}",
        body="",
        label=code,
        owners=(),
        patch=f"{number:04}-{code}.patch",
        branch=branch,
        files=(f"train_{number % 3}.py",),
        before=("d0",),
        findings=3,
        added=4 + number,
        removed=2,
    )


def analysis(rewrites: int, *, patches: int = 2, decided: int = 0, question: str = "") -> Analysis:
    findings = [finding(number, RULES[number % len(RULES)]) for number in range(rewrites)]
    if question:
        findings.append(finding(40, "PM301", question=question))
    files = tuple(FileRow(f"train_{number}.py", Outcome.CHANGED) for number in range(min(rewrites, 3)))
    return Analysis(
        outcome=Outcome.CHANGED if rewrites else Outcome.UNCHANGED,
        kind="training",
        files=(*files, FileRow("setup.py", Outcome.UNCHANGED), FileRow("old.py", Outcome.SKIPPED, "is Python 2")),
        findings=tuple(findings),
        steps=tuple(step(number, RULES[number]) for number in range(patches if rewrites else 0)),
        decided=decided,
        of=rewrites,
    )


def project(name: str, outcome: Outcome | None, **fields: object) -> ProjectRow:
    row = ProjectRow(
        name=name,
        location=f"https://example.org/{name}.git",
        commit="0123456789abcdef0123",
        outcome=outcome,
        cause=Cause.NONE,
        reason="",
        analysis=None,
        verdicts=(),
        branches=(),
        waiting=(),
        folder=f"projects/{name}",
        seconds=12.5,
        peak_mib=310.0,
        worker="tcp://10.0.0.7:40123",
    )
    return evolve(row, **fields)


def verdict(script: str, kind: str, *speed: float, cause: Cause = Cause.NONE, reason: str = "") -> VerdictRow:
    made = Verification(kind, cause, reason, *speed, gpu="NVIDIA H100" if speed else "", torch="2.13.0")
    return VerdictRow(script, made, f"projects/verify/{script}", 91.0, "gpu-0")


def projects() -> tuple[ProjectRow, ...]:
    """Twelve, of all outcomes."""
    made = Branch("perfmod", "a" * 40, 3, Outcome.CHANGED)
    return (
        project(
            "acme/detector",
            Outcome.CHANGED,
            analysis=analysis(12, patches=3, decided=4),
            verdicts=(verdict("train.py", "proven", 1.8, 1.6, 2.1),),
            branches=(made,),
        ),
        project(
            "acme/owned",
            Outcome.CHANGED,
            analysis=analysis(5, decided=5),
            verdicts=(
                verdict("a.py", "proven", 1.3, 1.25, 1.36),
                verdict("b.py", "no measurable change", 1.01, 0.98, 1.04),
                VerdictRow("c.py", None, ""),
            ),
            branches=(evolve(made, name="perfmod-vision"),),
            waiting=("perfmod-text",),
        ),
        project("acme/plain", Outcome.CHANGED, analysis=analysis(1, patches=1)),
        project(
            "acme/refuted",
            Outcome.NEEDS_A_PERSON,
            cause=Cause.REFUTED,
            reason="train.py: the loss differs from step 3 on",
            analysis=analysis(2),
            verdicts=(verdict("train.py", "refuted", 0.7, 0.65, 0.74, cause=Cause.REFUTED, reason="the loss differs"),),
        ),
        project(
            "acme/asks",
            Outcome.NEEDS_A_PERSON,
            cause=Cause.QUESTION,
            reason="one question is open",
            analysis=analysis(0, question="Does `collate` return tensors\non the *processor*?"),
        ),
        project("acme/slow", Outcome.FAILED, cause=Cause.TIMEOUT, reason="took longer than 600 s and was killed"),
        project("acme/slower", Outcome.FAILED, cause=Cause.TIMEOUT, reason="took longer than 600 s and was killed"),
        project(
            "acme/hooked",
            Outcome.FAILED,
            cause=Cause.HOOK,
            reason="pre-commit ended with 1: black is not installed",
            analysis=analysis(3),
            branches=(Branch("perfmod", "", 0, Outcome.FAILED, Cause.HOOK, "pre-commit ended with 1"),),
        ),
        project(
            "acme/broken-before",
            Outcome.CHANGED,
            analysis=analysis(4),
            verdicts=(verdict("main.py", "failed", cause=Cause.BEFORE, reason="ModuleNotFoundError: apex"),),
            branches=(made,),
        ),
        project("acme/unchanged", Outcome.UNCHANGED, analysis=analysis(0)),
        project("acme/empty", Outcome.SKIPPED, cause=Cause.NO_COMMITS, reason="the repository has no commits"),
        project("acme/waiting", None),
    )


def campaign(rows: tuple[ProjectRow, ...] | None = None, **fields: object) -> CampaignRow:
    row = CampaignRow(
        name="zoo",
        created="2026-11-26T06:00:00Z",
        perfmod="0.1.0",
        writes=True,
        seconds=812.0,
        stopped="",
        projects=projects() if rows is None else rows,
    )
    return evolve(row, **fields)


def hostile() -> CampaignRow:
    """Every text of it would like to be markup, to leave the folder or to turn others around."""
    odd = f"{ATTACK}\u202e@all"
    steps = analysis(2)
    row = project(
        odd,
        Outcome.CHANGED,
        location=f"javascript:alert(1)//{ATTACK}",
        reason=f"{odd}\n# heading",
        analysis=evolve(steps, kind=ATTACK, findings=(*steps.findings, finding(7, "PM301", question=odd))),
        verdicts=(evolve(verdict(odd, "proven", 1.5, 1.4, float("inf")), folder=f"//evil.example/{odd}"),),
        branches=(Branch(odd, "b" * 40, 1, Outcome.CHANGED),),
        waiting=(odd,),
        folder='javascript:alert(1)/#?%"\udcff',
    )
    formula = project("=HYPERLINK(1)", Outcome.FAILED, cause=Cause.CRASH, reason="=1+1")
    return campaign((row, formula), name=odd, stopped=odd)


def many(number: int) -> CampaignRow:
    """Projects of all outcomes, again and again."""
    samples = projects()
    rows = []
    for index in range(number):
        row = samples[index % len(samples)]
        name = f"owner{index % 97}/project-{index}"
        if row.analysis is not None:
            row = evolve(row, analysis=evolve(row.analysis, kind=KINDS[index % len(KINDS)]))
        rows.append(evolve(row, name=name, folder=f"projects/{name}"))
    return campaign(tuple(rows))
