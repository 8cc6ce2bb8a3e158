"""`python -I -m perfmod.github` is what `action.yml` runs; -I keeps the pull request's own modules out."""

from __future__ import annotations

from perfmod.github.main import run

if __name__ == "__main__":
    run()
