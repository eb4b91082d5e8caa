"""Questions under way: a few at once, a bounded number waiting, equal ones computed once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from clmpt.budget import Budget
from clmpt.errors import Cancelled, Overloaded

T = TypeVar("T")
_LOOK = 0.25  # seconds between two looks at whether the client is still there


@dataclass
class _Flight:
    """A question under way, and how many wait for it."""

    result: asyncio.Future[Any]
    budget: Budget
    waiting: int = 0


class Workload:
    """Runs questions in threads of its own, each within limits of time and memory.

    A question that a thread is at work on stops when all who asked it have left.
    """

    def __init__(self, threads: int, waiting: int, seconds: float, memory: int) -> None:
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="clmpt-question")
        self.most = threads + waiting
        self.seconds, self.memory = seconds, memory
        self.flights: dict[Hashable, _Flight] = {}

    async def run(
        self, key: Hashable, work: Callable[[], T], has_left: Callable[[], Awaitable[bool]]
    ) -> T:
        """The result of `work`, shared by all who ask for the same key at the same time."""
        flight = self.flights.get(key)
        if flight is None:
            if len(self.flights) >= self.most:
                raise Overloaded
            flight = self._begun(key, work)
        flight.waiting += 1
        try:
            while not flight.result.done():
                await asyncio.wait([flight.result], timeout=_LOOK)
                if not flight.result.done() and await has_left():
                    raise Cancelled
            found: T = flight.result.result()
            return found
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.result.done():
                flight.budget.cancel()
                self.flights.pop(key, None)

    def _begun(self, key: Hashable, work: Callable[[], T]) -> _Flight:
        budget = Budget(self.seconds, self.memory)

        def within_budget() -> T:
            with budget:
                budget.check()
                return work()

        future = self.pool.submit(copy_context().run, within_budget)
        flight = _Flight(asyncio.wrap_future(future), budget)
        self.flights[key] = flight

        def landed(result: asyncio.Future[Any]) -> None:
            if not result.cancelled():
                result.exception()  # whoever waited has seen it; nobody may be left
            if self.flights.get(key) is flight:
                del self.flights[key]

        flight.result.add_done_callback(landed)
        return flight

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
