"""The language server: what `check` finds, and what `apply` writes, in an editor."""
