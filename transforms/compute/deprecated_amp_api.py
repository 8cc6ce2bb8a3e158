"""Mixed precision through `torch.cuda.amp`, which is deprecated.

Since PyTorch 2.4 `torch.cuda.amp.autocast`, `GradScaler`, `custom_fwd` and `custom_bwd` warn on every use, and will
be removed. Their successors in `torch.amp` do the same for any device, which they take as an argument:

    scaler = torch.cuda.amp.GradScaler()         scaler = torch.amp.GradScaler("cuda")
    with torch.cuda.amp.autocast(use_amp):       with torch.amp.autocast("cuda", enabled=use_amp):

Imports change together with every use of the imported names, or not at all. The first positional argument of the old
`autocast` is `enabled`; in the new one it is the device and the second is `dtype`, so the old arguments become
keywords.

There is one trap: without a `dtype` the old class means float16, the new one the dtype of the surrounding autocast.
Where another dtype may be in effect, such as bfloat16 around a model that has an autocast inside, float16 is written
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute._amp_calls import DEPRECATED, Parts, Stays, use_edits
from perfmod.transforms.compute._amp_names import attributes, bare, root_of, uses_of
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.writing import insert_before_statement, replace

_MODULES = {"torch.cuda.amp", "torch.cpu.amp"} | {name.rpartition(".")[0] for name in DEPRECATED}
_EQUAL = "torch.amp does the same and takes the device as an argument"


class DeprecatedAmpApi(Rule):
    code = "PM313"
    name = "deprecated-amp-api"
    family = Family.COMPUTE
    summary = "torch.cuda.amp is deprecated and warns on every use"
    fix_title = "Use torch.amp with the device as an argument"
    numerics = Numerics.BITWISE
    safety = Safety.OPT_IN
    min_torch = "2.4"
    status = Status.PREVIEW
    triggers = frozenset({"amp"})
    references = (
        "https://docs.pytorch.org/docs/stable/amp.html",
        "https://github.com/pytorch/pytorch/releases/tag/v2.4.0",
    )
    changes_results = (
        "Never: the old classes only call the new ones. A scaler is no longer an instance of the old class, which "
        "matters if another file checks `isinstance(scaler, torch.cuda.amp.GradScaler)`. An open question where "
        "TorchScript compiles code of the file. PyTorch before 2.3 has no `torch.amp.GradScaler`, and before 2.4 no "
        "`torch.amp.custom_fwd`."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        yield from self._imports(file)
        yield from self._chains(file)

    # `torch.cuda.amp.autocast()`

    def _chains(self, file: FileFacts) -> Iterator[Finding]:
        """Uses that name everything from `torch` on."""
        for node in attributes(file):
            known = DEPRECATED.get(file.qualified(node) or "")
            root = root_of(node)
            if known is None or file.qualified(root) not in ("torch", "torch.cuda", "torch.cpu"):
                continue
            api, device = known
            try:
                edits, imports = use_edits(file, node, api, device)
            except Stays as reason:
                yield self.refused(file, node, f"`{file.code(node)}` {reason}")
                continue
            torch: str = root.value
            more: tuple[str, ...] = ()
            if file.qualified(root) != "torch":
                torch, more = file.names.spelled("torch", node)
            parts = [*edits, replace(file.source, node, f"{torch}.amp.{api}")], (*imports, *more)
            yield self._found(file, node, [parts])

    def _found(self, file: FileFacts, node: cst.CSTNode, parts: Sequence[Parts]) -> Finding:
        edits = [edit for each, _ in parts for edit in each]
        imports = dict.fromkeys(name for _, names in parts for name in names)
        scripted = any(
            (file.qualified(each) or "").startswith("torch.jit.script")
            for each in find_all(file.tree.module, cst.Attribute)
        )
        return self.found(
            file,
            node,
            "TorchScript may treat the new class differently in this version" if scripted else _EQUAL,
            edits,
            safety=Safety.UNSAFE if scripted else None,
            imports=imports,
        )

    # `from torch.cuda.amp import autocast`

    def _imports(self, file: FileFacts) -> Iterator[Finding]:
        for statement in find_all(file.tree.module, cst.ImportFrom):
            module = dotted(statement.module) if statement.module is not None and not statement.relative else ""
            if isinstance(statement.names, cst.ImportStar):
                if module in _MODULES:
                    yield self.refused(file, statement, "imported by `*`, so its uses cannot be found")
            elif module in _MODULES or module in ("torch.cuda", "torch.cpu"):
                yield from self._import(file, statement, module, statement.names)
        for plain in find_all(file.tree.module, cst.Import):
            for alias in plain.names:
                if dotted(alias.name) in ("torch.cuda.amp", "torch.cpu.amp") and alias.asname is not None:
                    try:
                        parts = uses_of(file, alias)
                    except Stays as reason:
                        yield self.refused(file, alias, str(reason))
                    else:
                        yield self._found(file, alias, [*parts, ([replace(file.source, alias.name, "torch.amp")], ())])

    def _import(
        self, file: FileFacts, statement: cst.ImportFrom, module: str, names: Sequence[cst.ImportAlias]
    ) -> Iterator[Finding]:
        moved: list[cst.ImportAlias] = []
        parts: list[Parts] = []
        for alias in names:
            name = f"{module}.{dotted(alias.name)}"
            if name not in DEPRECATED and name not in ("torch.cuda.amp", "torch.cpu.amp"):
                continue
            try:
                parts += uses_of(file, alias)
                moved.append(alias)
            except Stays as reason:
                yield self.refused(file, alias, str(reason))
        if not moved:
            return
        parent = "torch" if module in ("torch.cuda", "torch.cpu") else "torch.amp"
        source = file.source
        if len(moved) == len(names) and statement.module is not None:
            edits = [replace(source, statement.module, parent)]
        else:
            start, end = source.span(names[0])[0], source.span(names[-1].name)[1]
            end = source.span(names[-1])[1] if names[-1].asname is not None else end
            if "\n" in source.text[start:end]:
                yield self.refused(file, moved[0], "imported together with names that stay, on several lines")
                return
            kept = ", ".join(bare(source.code(alias)) for alias in names if alias not in moved)
            wanted = ", ".join(bare(source.code(alias)) for alias in moved)
            edits = [
                insert_before_statement(source, statement, f"from {parent} import {wanted}"),
                Edit(start, end, kept),
            ]
        yield self._found(file, statement, [*parts, (edits, ())])
