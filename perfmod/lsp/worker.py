"""A process in which the analysis runs, so that the server answers meanwhile and can stop it."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from perfmod.errors import Failure
from perfmod.parallel import follow_the_parent

Result = TypeVar("Result")


class Worker:
    """One process, started when it is needed, that does one thing after the other."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._turn = asyncio.Lock()

    async def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        """What a function of a module returns; whoever cancels this stops it. Raises `Failure` where the process died.

        What the function raises is raised here.
        """
        async with self._turn:
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(1, context, initializer=follow_the_parent)
            try:
                return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
            except asyncio.CancelledError:
                self.stop()
                raise
            except BrokenProcessPool as error:
                self.stop()
                raise Failure("the process that analyses files died, perhaps out of memory") from error

    def stop(self) -> None:
        """End the process, whatever it is at."""
        if self._pool is not None:
            for process in multiprocessing.active_children():
                process.terminate()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
