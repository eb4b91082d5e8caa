"""bench."""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from multiprocessing import get_context
from typing import Any

from clmpt.cli.output import TerminalTable, show_json, show_table, tell
from clmpt.experiments.speed import SIZES, measure_speed
from clmpt.reasoners.model import GradientModel
from clmpt.registry import REASONERS

_GIGA = 1e9


def bench(options: argparse.Namespace) -> None:
    runs: list[tuple[str, tuple[Any, ...]]] = []
    for name in options.sizes:
        size, who, steps = SIZES[name], options.reasoner, options.steps
        runs.append((name, (size, who, "query", steps)))
        if name != "M" or not issubclass(REASONERS.find(who), GradientModel):
            continue
        runs.append((f"{name}, negatives shared", (size, who, "batch", steps)))
        if "frozen" in {setting.name for setting in fields(REASONERS.find(who).Settings)}:
            large, frozen = replace(size, entities=10 * size.entities), {"frozen": True}
            runs.append((f"{name}, frozen", (size, who, "query", steps, frozen)))
            runs.append((f"{name}, frozen, 10 × entities", (large, who, "query", steps, frozen)))
    found = []
    for name, arguments in runs:
        tell(f"Measuring {name} …")
        # In a process of its own, so that the peak memory is that of this run.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            found.append({"run": name, **alone.submit(measure_speed, *arguments).result()})
    if options.json:
        show_json(found)
        return
    if found[0]["training"]:
        show_table(TerminalTable("Training: a step of 512 queries", *_training(found)))
    show_table(TerminalTable("Inference: scores and ranks of 512 queries", *_inference(found)))


def _training(found: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    phases = list(found[0]["training"]["phases"])
    headers = ["size", "s", "processor s", *(f"{phase} s" for phase in phases)]
    headers += ["tokens/query", "GFLOP needed", "spent", "GFLOP/s peak", "of peak", "GB"]
    rows = []
    for run in found:
        part = run["training"]
        rows.append(
            [
                run["run"],
                *_numbers(part["seconds"], part["processor_seconds"], *part["phases"].values()),
                f"{part['tokens_per_query']:.2f}",
                f"{part['encoder_flops_needed'] / _GIGA:.0f}",
                f"{part['encoder_flops_spent'] / _GIGA:.0f}",
                f"{part['peak_flops_per_second'] / _GIGA:.0f}",
                f"{part['fraction_of_peak']:.0%}",
                f"{part['peak_memory_bytes'] / _GIGA:.2f}",
            ]
        )
    return headers, rows


def _inference(found: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    phases = list(found[0]["inference"]["phases"])
    headers = ["size", "s", *(f"{phase} s" for phase in phases), "queries/s"]
    headers += ["queries/processor s", "GFLOP needed", "spent"]
    rows = []
    for run in found:
        part = run["inference"]
        rows.append(
            [
                run["run"],
                *_numbers(part["seconds"], *part["phases"].values()),
                f"{part['queries_per_second']:.0f}",
                f"{part['queries_per_processor_second']:.0f}",
                f"{part['encoder_flops_needed'] / _GIGA:.0f}",
                f"{part['encoder_flops_spent'] / _GIGA:.0f}",
            ]
        )
    return headers, rows


def _numbers(*values: float) -> list[str]:
    return [f"{value:.3f}" for value in values]
