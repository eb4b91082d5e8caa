"""Connects requests with what is served: which model, in which threads, within which limits."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

from clmpt.errors import SettingError
from clmpt.service.served import Asking, Served
from clmpt.service.service_settings import ServiceSettings
from clmpt.service.sparql_protocol import (
    LikelyTable,
    ProtocolRequest,
    exact_result,
    likely_result,
)
from clmpt.service.workload import Workload
from clmpt.sparql.results import WrittenResult

T = TypeVar("T")


class Client(Protocol):
    """Who asks; a request of Starlette's."""

    async def is_disconnected(self) -> bool: ...


class NoSuchModel(SettingError):
    """A model that is not served."""


class Switchboard:
    """Exact questions and likely ones have threads of their own, so that the fast ones never wait
    for the slow ones."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.served = {
            folder.name: Served.open(folder, settings.device, settings.trust)
            for folder in settings.folders
        }
        for one in self.served.values():
            one.warm_up()
        limits = (settings.waiting, settings.time_limit, settings.memory_limit)
        self.exact = Workload(settings.threads, *limits)
        self.likely = Workload(1, *limits)  # its matrix products use all processors

    def look_for_examples(self) -> None:
        """In a thread, while nobody asks yet; apart, because who only opens models needs none."""
        for one in self.served.values():
            self.exact.pool.submit(getattr, one, "examples")

    def close(self) -> None:
        self.exact.close()
        self.likely.close()

    def named(self, name: str | None) -> Served:
        """The model or graph that a request names, or the first."""
        if name is None:
            return next(iter(self.served.values()))
        if name not in self.served:
            listed = ", ".join(self.served)
            raise NoSuchModel(f"There is no model '{name}' here. Available: {listed}.")
        return self.served[name]

    async def exactly(self, key: Hashable, work: Callable[[], T], client: Client) -> T:
        return await self.exact.run(key, work, client.is_disconnected)

    async def ask(
        self, served: Served, questions: tuple[str, ...], how: Asking, client: Client
    ) -> list[dict[str, Any]]:
        load = self.likely if served.models else self.exact
        key = ("ask", served.name, questions, how)
        return await load.run(key, lambda: served.ask(questions, how), client.is_disconnected)

    async def explain(
        self, served: Served, question: str, entity: str, reasoner: str | None, client: Client
    ) -> list[dict[str, Any]]:
        key = ("explain", served.name, question, entity, reasoner)
        work = lambda: served.explain(question, entity, reasoner)  # noqa: E731
        return await self.likely.run(key, work, client.is_disconnected)

    async def sparql(
        self, served: Served, request: ProtocolRequest, client: Client
    ) -> WrittenResult:
        key = ("sparql", served.name, repr(request))
        return await self.exactly(key, lambda: exact_result(served, request), client)

    async def likely_sparql(
        self, served: Served, request: ProtocolRequest, client: Client
    ) -> LikelyTable:
        key = ("likely", served.name, repr(request))
        work = lambda: likely_result(served, request)  # noqa: E731
        return await self.likely.run(key, work, client.is_disconnected)
