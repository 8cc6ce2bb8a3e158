"""`python -m perfmod` is `perfmod`."""

from __future__ import annotations

from perfmod.cli.main import run

if __name__ == "__main__":
    run()
