"""A process's share of work that several may do together; needs neither torch nor a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")


class Share(Protocol):
    """This process's share, if several sample into one file; `compute.distributed` has another."""

    def turns(self, count: int) -> Iterable[int]:
        """Which of so many shapes are this process's."""

    def by_one(self, work: Callable[[], _T]) -> _T:
        """What the work gives in one of the processes, in all of them."""

    def held(self, context: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
        """A lock that one of them takes."""

    def wait(self) -> None:
        """Until all are here."""

    def agree(self, value: str, what: str) -> None:
        """Refuses to go on if the processes were started with something different."""


class Alone:
    """The share of a process that is the only one: everything."""

    def turns(self, count: int) -> Iterable[int]:
        return range(count)

    def by_one(self, work: Callable[[], _T]) -> _T:
        return work()

    def held(self, context: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
        return context

    def wait(self) -> None:
        """There is nobody to wait for."""

    def agree(self, value: str, what: str) -> None:
        """There is nobody to disagree with."""
