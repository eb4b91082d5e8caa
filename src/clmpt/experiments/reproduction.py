"""A published experiment, or a variant of it: sample, pre-train, train, measure, in one folder.

What a stage makes is kept under a name that follows from its settings and from what it was made
from. So variants in one folder share what they have in common, what is there already is not made
again, and what was cut off goes on.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from clmpt.errors import DataError, SettingError
from clmpt.experiments.benchmarks import BENCHMARKS, differences
from clmpt.experiments.planning import (
    Work,
    measuring_work,
    pretraining_work,
    sampling_work,
    training_work,
)
from clmpt.experiments.records import PLACES, VARIANTS, Variant, read_variant
from clmpt.experiments.stages import (
    Stage,
    Tell,
    counted,
    make_predictor,
    make_reasoner,
    measure,
    predictor_in,
    reasoner_in,
)
from clmpt.graph.benchmark_folders import FULL, OBSERVED, SPLITS, query_files, read_queries
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query
from clmpt.logic.query_graph import query_graphs
from clmpt.logic.shapes import SHAPES, shape
from clmpt.pages.published import check_published
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.sampling.making import make_queries
from clmpt.sampling.sampler import MOST_HARD, Protocol
from clmpt.settings import (
    Experiment,
    Pretraining,
    Queries,
    Reasoning,
    Training,
    check_heads,
    experiment,
    pretraining,
    queries,
    reasoning,
    training,
    without_device,
)
from clmpt.storage.files import clear_unfinished, new_file, save_json
from clmpt.storage.run_folder import RunFolder, is_finished, provenance
from clmpt.training.runs import has_facts

_FOLDERS = ("queries", "predictors", "reasoners", "reports", VARIANTS)
_SLUG = 60  # characters of a file's name that tell of a variant
_HOPS = 16  # times that a query's entities are scored hop by hop, on average
_KEY = 8  # hexadecimal digits
_OFFICIAL, _SAMPLED = "official", "sampled"


@dataclass(frozen=True)
class Recipe:
    """All the settings of an experiment."""

    experiment: Experiment
    queries: Queries
    pretraining: Pretraining
    reasoning: Reasoning
    training: Training

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]]) -> Recipe:
        """
        >>> Recipe.of({"experiment": {"seed": 7}, "training": {"batch": 64}}).training.seed
        7
        """
        asked = experiment(tables.get("experiment", {}))
        check_published(asked.benchmark, asked.published)
        seed = {"seed": asked.seed}

        def table(name: str) -> dict[str, Any]:
            return {**seed, **tables.get(name, {})}

        model = reasoning(tables.get("reasoning", {}))
        before = pretraining(table("pretraining"))
        check_heads(before, model)
        chosen = queries(table("queries"))
        for name in (*chosen.trained.split(), *chosen.measured.split()):
            if name not in SHAPES:
                known = ", ".join(SHAPES)
                raise SettingError(f"There is no shape '{name}'. A recipe names some of {known}.")
        return cls(asked, chosen, before, model, training(table("training")))

    @property
    def name(self) -> str:
        return self.experiment.name or label(self.reasoning)


def label(model: Reasoning) -> str:
    """A reasoner's name with what is special about it, as the paper's tables have it.

    >>> published = Reasoning(reasoner="lmpnn", conditional=False, frozen=True)
    >>> label(Reasoning(frozen=True)), label(published)
    ('CLMPT (frozen)', 'LMPNN')
    """
    named = model.reasoner.upper()
    is_clmpt = model.reasoner == "clmpt"
    if model.conditional != is_clmpt:
        named += " with C" if model.conditional else " without C"
    if model.frozen == is_clmpt:
        named += " (frozen)" if model.frozen else " (trainable)"
    return named


def reproduce(
    graph: KnowledgeGraph,
    data: Path,
    recipe: Recipe,
    out: Path,
    workers: int = 1,
    tell: Tell = lambda _stage: None,
) -> Variant:
    """Does the experiment in the folder `out`, or goes on with it.

    Queries come from the folder `data` where it has them, and are sampled from the graph where it
    has not; the report says which. What is trained is chosen on the split 'valid', and the split
    'test' is read at the end.
    """
    run = begin(graph, data, out)
    with run.alone():
        for folder in _FOLDERS:
            clear_unfinished(out / folder)
        return _Work(graph, data, recipe, out, workers, tell).do()


def begin(graph: KnowledgeGraph, data: Path, out: Path) -> RunFolder:
    """The folder for experiments on one graph, new or as it was left."""
    identity = _identity(graph)
    found = RunFolder.resume(out, identity)
    if found is not None:
        return found
    return RunFolder.create(out, identity, str(data.resolve()), lambda _folder: None)


def graph_differs(recipe: Recipe, graph: KnowledgeGraph) -> list[str]:
    """In what the graph is not the published one of the benchmark that the recipe names."""
    known = BENCHMARKS.get(recipe.experiment.benchmark)
    return differences(known, graph) if known else []


def check_folder(graph: KnowledgeGraph, out: Path) -> None:
    """Refuses what `begin` would refuse, and touches nothing."""
    RunFolder.find(out, _identity(graph))


def _identity(graph: KnowledgeGraph) -> dict[str, Any]:
    for split in SPLITS:
        if not has_facts(graph, split):
            raise DataError(f"The graph has no facts in the split '{split}'; all three are needed.")
    return {
        "kind": "reproduction",
        "graph": {"fingerprint": graph.fingerprint, "edges": graph.checksum},
    }


@dataclass(frozen=True)
class Part:
    """A stage of an experiment: what it is called, and where its result is or will be."""

    name: str
    path: Path

    @property
    def is_done(self) -> bool:
        return is_finished(self.path) if self.name.endswith("training") else self.path.exists()

    @property
    def is_begun(self) -> bool:
        return self.path.exists() and not self.is_done


def parts_of(recipe: Recipe, data: Path, out: Path) -> list[Part]:
    """The stages in their order.

    A name follows from settings, and from which official queries there are in the folder `data`,
    so other ones mean another path.
    """
    asked = asdict(recipe.queries)
    before, after = without_device(recipe.pretraining), without_device(recipe.training)
    train, valid, test = (_official(data, split) for split in SPLITS)
    train |= {name: asked[name] for name in ("trained", "train", "train_negated", "seed")}
    valid |= {"trained": asked["trained"], "seed": asked["seed"]}
    valid |= {"count": recipe.training.validation_queries}
    test |= {name: asked[name] for name in ("measured", "test", "test_links", "seed")}
    train_key, valid_key, test_key, predictor_key = map(_key, (train, valid, test, before))
    model = asdict(recipe.reasoning)
    reasoner_key = _key([train_key, valid_key, predictor_key, model, after])
    predictor = f"{recipe.pretraining.model}-{recipe.pretraining.rank}-{predictor_key}"
    reasoner = f"{recipe.reasoning.reasoner}-{reasoner_key}"
    return [
        Part("sampling to train", out / "queries" / f"train-{train_key}.queries"),
        Part("sampling to choose", out / "queries" / f"valid-{valid_key}.queries"),
        Part("pre-training", out / "predictors" / predictor),
        Part("training", out / "reasoners" / reasoner),
        Part("sampling to test", out / "queries" / f"test-{test_key}.queries"),
        Part("hop by hop", out / "reports" / f"hops-{_key([predictor_key, test_key])}"),
        Part("measuring", out / "reports" / f"{reasoner}-{test_key}"),
    ]


def works_of(recipe: Recipe, graph: KnowledgeGraph, workers: int = 1) -> list[Work]:
    """About how much the stages of `parts_of` have to do, with the folder's queries left aside."""
    size, width, asked = len(graph.entities), recipe.pretraining.width, recipe.queries
    trained = sum(_trained_count(asked, shape(name)) for name in asked.trained.split())
    chosen = recipe.training.validation_queries * len(asked.trained.split())
    tested = sum(_tested_count(asked, shape(name)) for name in asked.measured.split())
    return [
        sampling_work(trained, workers),
        sampling_work(chosen, workers),
        pretraining_work(graph, recipe.pretraining),
        training_work(size, width, trained, recipe.reasoning, recipe.training),
        sampling_work(tested, workers),
        measuring_work(size, width, tested, _HOPS),
        measuring_work(size, width, tested),
    ]


def _official(data: Path, split: str) -> dict[str, Any]:
    """How a split's official queries are told from others: by their files' names and sizes."""
    sizes = {path.name: path.stat().st_size for path in query_files(data, split)}
    return {_OFFICIAL: sizes}


def _key(document: Any) -> str:
    text = json.dumps(document, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY]


@dataclass(frozen=True)
class _Work:
    graph: KnowledgeGraph
    data: Path
    recipe: Recipe
    out: Path
    workers: int
    tell: Tell

    def do(self) -> Variant:
        parts = parts_of(self.recipe, self.data, self.out)
        train, valid, predictor, reasoner, test, hops, own = parts
        about = provenance()
        chosen, source = self.recipe.queries, str(self.data.resolve())
        device = self.recipe.training.device
        few = self.recipe.training.validation_queries
        self.gather(train, "train", chosen.trained, partial(_trained_count, chosen))
        self.gather(valid, "valid", chosen.trained, lambda _template: few)
        make_predictor(self.graph, self.recipe.pretraining, predictor.path, source, self.tell)
        make_reasoner(
            self.graph,
            predictor.path,
            QuerySet.open(train.path),
            self.recipe.reasoning,
            self.recipe.training,
            reasoner.path,
            source,
            self.tell,
            QuerySet.open(valid.path),
        )
        self.gather(test, "test", chosen.measured, partial(_tested_count, chosen))
        groups = [group for group in QuerySet.open(test.path).groups if len(group)]
        self.measure(own, groups, lambda: reasoner_in(reasoner.path, device))
        relations = len(self.graph.relations)
        self.measure(hops, groups, lambda: predictor_in(predictor.path, relations, device))
        return self.record(
            about,
            dict(zip(PLACES, (part.path for part in parts), strict=True)),
        )

    # --- queries ----------------------------------------------------------------------------------

    def gather(self, part: Part, split: str, shapes: str, count: Callable[[Query], int]) -> None:
        """The file of a split's queries: those of the data folder, and samples of other shapes."""
        if part.is_done:
            return
        wanted = {shape(name): name for name in shapes.split()}
        here = bool(query_files(self.data, split))
        if here:
            self.tell(Stage(part.name, 0, 1, "reading"))
        official = {
            group.template: group
            for group in (read_queries(self.data, split) if here else [])
            if group.template in wanted
        }
        for group in official.values():
            group.check(len(self.graph.entities), 2 * len(self.graph.relations))
        missing = [(template, count(template)) for template in wanted if template not in official]
        sampled = self.sampled(part, missing, split) if missing else QuerySet(())
        groups = {**official, **{group.template: group for group in sampled.groups}}
        about = {
            **(sampled.about or {"graph": self.graph.fingerprint}),
            "observed": list(OBSERVED[split]),
            "full": list(FULL[split]),
            _OFFICIAL: [name for template, name in wanted.items() if template in official],
            _SAMPLED: [name for template, name in wanted.items() if template not in official],
        }
        QuerySet(tuple(groups[template] for template in wanted), about).save(part.path)
        self.samples_of(part).unlink(missing_ok=True)

    def sampled(self, part: Part, wanted: Sequence[tuple[Query, int]], split: str) -> QuerySet:
        cap = 0 if split == "train" else MOST_HARD
        protocol = Protocol(OBSERVED[split], FULL[split], cap)
        path = self.samples_of(part)
        if path.exists():
            there = QuerySet.open(path)
            if {group.template for group in there.groups} == {template for template, _ in wanted}:
                return there
            path.unlink()
        tell = counted(self.tell, part.name, 0, sum(count for _, count in wanted))
        seed = self.recipe.queries.seed
        return make_queries(self.graph, wanted, protocol, path, seed, self.workers, tell)

    def samples_of(self, part: Part) -> Path:
        return part.path.with_suffix(".samples")

    # --- figures ----------------------------------------------------------------------------------

    def measure(self, part: Part, groups: Sequence[QueryGroup], opened: Callable[[], Any]) -> None:
        if part.is_done:
            return
        measure(
            opened(),
            groups,
            self.graph,
            OBSERVED["test"],
            {},
            part.path,
            counted(self.tell, part.name, 0, sum(map(len, groups))),
            self.recipe.training.device,
        )

    def record(self, about: dict[str, Any], folders: dict[str, Path]) -> Variant:
        """Writes down what was done, under its name."""
        recipe = self.recipe
        slug = re.sub(r"[^a-z0-9]+", "-", recipe.name.lower()).strip("-")[:_SLUG] or "variant"
        places = {name: str(folder.relative_to(self.out)) for name, folder in folders.items()}
        key = _key([asdict(recipe.experiment), recipe.name, places])
        path = self.out / VARIANTS / f"{slug}-{key}.json"
        if not path.exists():
            document = {
                "name": recipe.name,
                "settings": asdict(recipe),
                "folders": places,
                **about,
                "done": datetime.now(timezone.utc).isoformat(timespec="microseconds"),
                "graph_differs": graph_differs(recipe, self.graph),
            }
            with new_file(path) as scratch:
                save_json(scratch, document)
        return read_variant(path)


def _trained_count(asked: Queries, template: Query) -> int:
    return asked.train_negated if _is_negated(template) else asked.train


def _tested_count(asked: Queries, template: Query) -> int:
    return asked.test_links if _atoms(template) == 1 else asked.test


def _is_negated(template: Query) -> bool:
    graphs = query_graphs(template).alternatives
    return any(edge.negated for graph in graphs for edge in graph.edges)


def _atoms(template: Query) -> int:
    return sum(len(graph.edges) for graph in query_graphs(template).alternatives)
