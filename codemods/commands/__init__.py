"""The families as LibCST codemod commands.

For instance: `python -m libcst.tool codemod -x perfmod.codemods.commands.syncs.SyncsCommand train.py`.
"""
