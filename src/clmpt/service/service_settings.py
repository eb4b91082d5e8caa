"""What a service serves, to whom, and how much a question may take."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class ServedFolder:
    """A graph or a model by the name that requests give it."""

    name: str
    path: str
    is_model: bool
    graph: str | None = None  # other than the model's own


@dataclass(frozen=True)
class ServiceSettings:
    """The first folder is the one that is asked if a request names none."""

    folders: tuple[ServedFolder, ...]
    token: str | None = None
    time_limit: float = 30.0  # seconds a question
    memory_limit: int = 2**31  # bytes a question, on top of what is in use
    waiting: int = 128  # questions; more are turned away
    threads: int = 2  # for exact answers; likely ones have a thread of their own
    body_limit: int = 2**20  # bytes of a request
    read_timeout: float = 20.0  # seconds until a request must be there
    json_logs: bool = False
    device: str = "auto"
    trust: tuple[str, ...] = ()

    def as_text(self) -> str:
        """For a worker's environment."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> ServiceSettings:
        found = json.loads(text)
        folders = tuple(ServedFolder(**one) for one in found.pop("folders"))
        return cls(folders=folders, trust=tuple(found.pop("trust")), **found)
