"""Predictors trained elsewhere: CQD checkpoints, plain arrays, PyKEEN models.

All become tables in the order of a graph's ids. Nothing is unpickled without restrictions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.names import NameTable
from clmpt.predictors.predictor import TABLES, EmbeddingPredictor
from clmpt.queries.links import inverse_rows
from clmpt.registry import PREDICTORS

if TYPE_CHECKING:
    from pykeen.models import ERModel
    from pykeen.triples import TriplesFactory

# Shapes: E entities, D width of an entity, W width of a relation, S rows of the relation table


def predictor_from_cqd(path: str | Path, graph: KnowledgeGraph) -> EmbeddingPredictor:
    """A predictor from a ComplEx checkpoint of CQD, with rows in the order of the graph's ids."""
    if not Path(path).is_file():
        raise DataError(f"There is no file '{path}'.")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # damaged files raise dozens of different errors
        raise DataError(
            f"'{path}' cannot be read: it is damaged, or contains more than plain tensors."
        ) from None
    tables = found.get("model_state_dict", found) if isinstance(found, dict) else {}
    tables = tables if isinstance(tables, dict) else {}
    entities_ED, relations_SW = (tables.get(f"embeddings.{n}.weight") for n in (0, 1))
    if not isinstance(entities_ED, Tensor) or not isinstance(relations_SW, Tensor):
        raise DataError(
            f"'{path}' is not a ComplEx checkpoint of CQD: it has no 'embeddings.0.weight' and "
            "'embeddings.1.weight', at the top level or under 'model_state_dict'."
        )
    return predictor_from_tables("complex", entities_ED, relations_SW, graph)


def predictor_from_arrays(
    model: str,
    path: str | Path,
    graph: KnowledgeGraph,
    entity_names: Sequence[str] | None = None,
    relation_names: Sequence[str] | None = None,
) -> EmbeddingPredictor:
    """A predictor from the arrays 'entities' and 'relations' of an .npz or .safetensors file.

    Rows are in the order of the names if given, otherwise in the order of the graph's ids.
    Relations may be followed by their inverses, in the same order.
    """
    arrays = _read_arrays(Path(path))
    entities_ED, relations_SW = (arrays[name] for name in ("entities", "relations"))
    if entity_names is not None:
        order = _order("entity", entity_names, graph.entities.names)
        _check_rows("entity", entity_names, len(entities_ED), 1)
        entities_ED = entities_ED[order]
    if relation_names is not None:
        order = _order("relation", relation_names, graph.relations.names)
        if _check_rows("relation", relation_names, len(relations_SW), 2) == 2:
            order = np.concatenate([order, order + len(relation_names)])
        relations_SW = relations_SW[order]
    return predictor_from_tables(
        model,
        torch.from_numpy(np.array(entities_ED, np.float32)),
        torch.from_numpy(np.array(relations_SW, np.float32)),
        graph,
    )


def predictor_from_pykeen(
    model: ERModel, factory: TriplesFactory, graph: KnowledgeGraph
) -> EmbeddingPredictor:
    """A predictor from a PyKEEN model and its triples factory; PyKEEN must be installed.

    Supports ComplEx, DistMult, TransE (L1), RotatE and RESCAL, with or without inverse triples, and
    CP with them.
    """
    interaction = model.interaction
    name = _pykeen_name(interaction)
    norm = {"transe": 1, "rotate": 2}.get(name or "")
    if name is None or (norm and (interaction.p, interaction.power_norm) != (norm, False)):
        raise DataError(
            f"PyKEEN models with {interaction} are not supported. Supported are ComplEx, "
            "DistMult, TransE with the L1 norm, RotatE, RESCAL and CP."
        )
    with torch.inference_mode():
        parts = [_flat(part()) for part in model.entity_representations]  # of CP, head and tail
        entities_ED = torch.cat(parts, 1)
        relations = model.relation_representations[0]()
        relations_SW = (torch.angle(relations) if name == "rotate" else _flat(relations)).clone()
    listed = (
        [text for text, _ in sorted(ids.items(), key=lambda item: item[1])]
        for ids in (factory.entity_to_id, factory.relation_to_id)
    )
    entity_names, relation_names = listed
    entities_ED = entities_ED[_order("entity", entity_names, graph.entities.names)]
    order = _order("relation", relation_names, graph.relations.names)
    if model.use_inverse_triples:  # PyKEEN interleaves relations and their inverses
        order = np.concatenate([2 * order, 2 * order + 1])
    return predictor_from_tables(name, entities_ED, relations_SW[order], graph)


def _pykeen_name(interaction: object) -> str | None:
    """What a PyKEEN scoring function is called here."""
    from pykeen.nn.modules import (
        ComplExInteraction,
        CPInteraction,
        DistMultInteraction,
        RESCALInteraction,
        RotatEInteraction,
        TransEInteraction,
    )

    names = {
        ComplExInteraction: "complex",
        DistMultInteraction: "distmult",
        TransEInteraction: "transe",
        RotatEInteraction: "rotate",
        RESCALInteraction: "rescal",
        CPInteraction: "cp",
    }
    return names.get(type(interaction))


def predictor_from_tables(
    model: str, entities_ED: Tensor, relations_SW: Tensor, graph: KnowledgeGraph
) -> EmbeddingPredictor:
    """A predictor from tables in id order; relations may be followed by all their inverses."""
    for table in (entities_ED, relations_SW):
        plain = table.layout == torch.strided and table.device.type == "cpu"
        if table.dim() != 2 or not table.is_floating_point() or not plain:
            raise DataError(
                f"The model's embeddings must be tables of floats, not {table.dtype} of shape "
                f"{tuple(table.shape)}."
            )
    entities_ED, relations_SW = entities_ED.float(), relations_SW.float()
    relations = len(graph.relations)
    inverse_R = inverse_rows(graph)
    rows = max(relations, int(inverse_R.max(initial=-1)) + 1)
    if len(relations_SW) == relations:
        inverse_R = np.where(inverse_R < relations, inverse_R, -1)
    elif len(relations_SW) == 2 * relations:
        inverse_R = np.arange(relations, 2 * relations)
    elif len(relations_SW) != rows:
        raise DataError(
            f"The model has {len(relations_SW):,} relations; the graph has {relations:,}, or "
            f"{2 * relations:,} with inverses. Is it the right graph?"
        )
    if len(entities_ED) != len(graph.entities):
        raise DataError(
            f"The model has {len(entities_ED):,} entities, the graph {len(graph.entities):,}. "
            "Is it the right graph?"
        )
    if not all(bool(table.isfinite().all()) for table in (entities_ED, relations_SW)):
        raise DataError("The model's tables contain values that are not finite.")
    kind, inverses = PREDICTORS.find(model), torch.from_numpy(inverse_R)
    outline = kind(entities_ED.to("meta"), relations_SW.to("meta"), inverses)
    if len(list(outline.parameters())) > len(TABLES):
        raise DataError(
            f"{kind.__name__} has weights besides its two tables, so it cannot be converted. Train "
            f"one here: clmpt pretrain --model {model}"
        )
    return kind(entities_ED, relations_SW, inverses)


def _read_arrays(path: Path) -> Mapping[str, npt.NDArray[Any]]:
    try:
        if path.suffix == ".safetensors":
            from safetensors.numpy import load_file

            arrays = load_file(path)
        else:
            with np.load(path, allow_pickle=False) as opened:
                arrays = {name: opened[name] for name in ("entities", "relations")}
        found = {name: arrays[name] for name in ("entities", "relations")}
    except Exception as error:  # zip, numpy and safetensors raise a dozen different errors
        raise DataError(
            f"'{path}' must contain two arrays, 'entities' and 'relations' ({_plain(error)})."
        ) from None
    for name, array in found.items():
        if array.ndim != 2 or array.dtype.kind != "f":
            raise DataError(
                f"The array '{name}' of '{path}' must be a table of floats, not "
                f"{array.ndim}-dimensional {array.dtype}."
            )
    return found


def _plain(error: Exception) -> str:
    return "it contains objects" if "pickle" in str(error) else str(error) or type(error).__name__


def _check_rows(kind: str, names: Sequence[str], rows: int, most: int) -> int:
    """The number of rows per name: one, or two with inverses."""
    if rows not in [times * len(names) for times in range(1, most + 1)]:
        raise DataError(f"There are {len(names):,} {kind} names for {rows:,} rows.")
    return rows // max(len(names), 1)


def _order(kind: str, given: Sequence[str], wanted: NameTable) -> npt.NDArray[np.int64]:
    """The row of each of the graph's names."""
    rows = {name: row for row, name in enumerate(given)}
    if len(rows) < len(given):
        raise DataError(f"The model's {kind} names are not unique.")
    missing = [name for name in wanted if name not in rows]
    if missing:
        shown = ", ".join(f"'{name}'" for name in missing[:3])
        raise DataError(
            f"{len(missing):,} of the graph's {len(wanted):,} {kind} names are missing from "
            f"the model: {shown}{', …' * (len(missing) > 3)}."
        )
    return np.array([rows[name] for name in wanted], np.int64)


def _flat(table: Tensor) -> Tensor:
    """A row of real numbers each; complex numbers as [real half | imaginary half]."""
    real = torch.cat([table.real, table.imag], dim=-1) if table.is_complex() else table
    return real.flatten(1)
