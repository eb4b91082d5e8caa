"""Opens the models that a service asks; apart, because this needs torch."""

from __future__ import annotations

from clmpt.answering.answerer import Answerer
from clmpt.service.service_settings import ServedFolder


def open_answerer(
    folder: ServedFolder, device: str, trust: tuple[str, ...], reasoner: str | None
) -> Answerer:
    return Answerer.open(folder.path, folder.graph, device, trust, reasoner)
