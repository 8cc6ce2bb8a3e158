"""Rewrites as patches and commits: a series for `git am`, commits in the repository, and a patch edited by hand."""
