"""The stage of a fit that checks its probabilities: of what is said to be likely, what is true?"""

from __future__ import annotations

from pathlib import Path

from clmpt.answering.asked_model import open_model
from clmpt.answering.model_folder import REASONER, RELIABILITY, choice_in
from clmpt.answering.probabilities import by_hops, said_and_true
from clmpt.compute.devices import find_device
from clmpt.experiments.costs import Work
from clmpt.experiments.stage_builders import Measured, Stage
from clmpt.graph.splits import train_split
from clmpt.progress import ReportProgress, part_of
from clmpt.queries.store import QuerySet
from clmpt.storage.files import save_json
from clmpt.storage.sealing import listed_file

_QUERIES = 50  # of a shape


def reliability_stage(measured: Measured, out: Path, work: Work) -> Stage:
    """The reliability of the reasoner that answers questions, on test queries; an empty list if it
    gives no probabilities."""
    name = "checking probabilities"

    def run(progress: ReportProgress) -> None:
        found = QuerySet.open(measured.queries).groups
        groups = [group.take(slice(0, _QUERIES)) for group in found if len(group)]
        known = measured.graph.view(train_split(measured.graph))
        device = find_device(measured.device)
        asked, _ = open_model(
            *(out / REASONER, measured.graph, device, measured.trust, choice_in(out)), known
        )
        said = []
        if groups and asked.has_probabilities:
            total = sum(map(len, groups))
            said = by_hops(said_and_true(asked, groups, known, part_of(progress, name, 0, total)))
        with listed_file(out / RELIABILITY) as scratch:
            save_json(scratch, [one.as_plain() for one in said])

    return Stage("reliability", name, out / RELIABILITY, work, run)
