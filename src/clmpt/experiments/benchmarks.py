"""Published benchmarks, from the BetaE authors' archive or from a local file or folder.

Neither the network nor the archive is trusted: interrupted downloads resume, stalled ones are
retried, and only files with known names are unpacked, up to their declared size.
"""

from __future__ import annotations

import re
import shutil
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from clmpt.errors import ClmptError, DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.graph.splits import SPLITS
from clmpt.progress import Progress, ReportProgress, silent
from clmpt.storage.files import new_folder

ARCHIVE = "https://snap.stanford.edu/betae/KG_data.zip"
ARCHIVE_MD5 = "d54f92e2e6a64d7f525b8fe366ab3f50"  # as recorded by users of the archive
_DENSEST = 1000  # maximum compression ratio; deflate cannot exceed it
_CHUNK = 2**18
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError)
_WANTED = re.compile(
    r"(train|valid|test)(\.txt|-queries\.pkl|(-easy|-hard)?-answers\.pkl)"
    r"|(id2|ind2)(ent|rel)\.(pkl|tsv)|(ent|rel)2id\.pkl|stats\.txt|entity2label\.tsv"
)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark's name in the archive, and what identifies a correct copy."""

    folder: str
    entities: int
    relations: int
    facts: tuple[int, int, int]  # in train, valid and test
    checksum: int | None = None  # of all facts, if known
    recipe: str = ""  # suggested first


BENCHMARKS = {
    "fb15k": Benchmark(
        "FB15k-betae",
        14_951,
        2_690,
        (966_284, 100_000, 118_142),
        recipe="recipes/paper/clmpt-fb15k.toml",
    ),
    "fb15k-237": Benchmark(
        "FB15k-237-betae",
        14_505,
        474,
        (544_230, 35_052, 40_876),
        1_587_618_919,
        "recipes/laptop/fb15k-237.toml",
    ),
    "nell995": Benchmark(
        "NELL-betae",
        63_361,
        400,
        (228_426, 28_648, 28_534),
        3_788_196_355,
        "recipes/laptop/nell995.toml",
    ),
}


def get(
    benchmark: Benchmark,
    source: Path,
    out: Path,
    progress: ReportProgress = silent,
    largest: int = 3 * 2**30,
) -> KnowledgeGraph:
    """Copies the benchmark from an archive or a folder to the new folder `out`, or compares it with
    that if it exists.

    Progress is in bytes. No file of an archive may be larger than `largest`, nor all files
    together larger than twice that.
    """
    with new_folder(out, repeatable=True) as scratch:
        if source.is_dir():
            _copy(benchmark, source, scratch, progress)
        else:
            _unpack(benchmark, source, scratch, progress, largest)
        check(benchmark, scratch, source)
    return open_graph(out)


def check(benchmark: Benchmark, folder: Path, source: Path) -> None:
    """Rejects a folder that is not the published benchmark."""
    wrong = differences(benchmark, open_graph(folder))
    if wrong:
        raise DataError(f"'{source}' is not the published {benchmark.folder}: {', '.join(wrong)}.")


def is_benchmark(benchmark: Benchmark, folder: Path) -> bool:
    """Whether a folder has the published facts."""
    try:
        return not differences(benchmark, open_graph(folder))
    except ClmptError:
        return False


def differences(benchmark: Benchmark, graph: KnowledgeGraph) -> list[str]:
    """How a graph differs from the published one; empty if it does not."""
    facts = tuple(len(graph.triples(name)) if name in graph.splits else 0 for name in SPLITS)
    found = (len(graph.entities), len(graph.relations), *facts)
    wanted = (benchmark.entities, benchmark.relations, *benchmark.facts)
    names = ("entities", "relations", "train", "valid", "test")
    wrong = [
        f"{name} {is_there:,} instead of {should:,}"
        for name, is_there, should in zip(names, found, wanted, strict=True)
        if is_there != should
    ]
    if not wrong and benchmark.checksum not in (None, graph.checksum):
        return ["the right number of facts, but different ones"]
    return wrong


# --- from a folder --------------------------------------------------------------------------------


def _copy(benchmark: Benchmark, source: Path, out: Path, progress: ReportProgress) -> None:
    inner = source / benchmark.folder
    folder = inner if inner.is_dir() else source
    done = 0
    for path in sorted(folder.iterdir()):
        if _WANTED.fullmatch(path.name) and path.is_file():
            shutil.copyfile(path, out / path.name)
            done += path.stat().st_size
            progress(Progress("unpacking", done))
    if not (out / "train.txt").exists():
        raise DataError(f"'{source}' has no {benchmark.folder}: there is no train.txt in it.")


# --- from an archive ------------------------------------------------------------------------------


def _unpack(
    benchmark: Benchmark, archive: Path, out: Path, progress: ReportProgress, largest: int
) -> None:
    try:
        with zipfile.ZipFile(archive) as opened:
            done = 0
            for member, name in _members(opened, benchmark, archive, largest):
                done = _write(opened, member, out / name, done, progress)
    except FileNotFoundError:
        raise DataError(f"There is no file or folder '{archive}'.") from None
    except _BROKEN as error:
        raise DataError(f"'{archive}' is not a complete zip archive ({error}).") from None


def _members(
    opened: zipfile.ZipFile, benchmark: Benchmark, archive: Path, largest: int
) -> list[tuple[zipfile.ZipInfo, str]]:
    """The benchmark's files by base name; paths in the archive are only compared, never used."""
    found: dict[str, zipfile.ZipInfo] = {}
    for member in opened.infolist():
        *folders, name = member.filename.split("/")
        if not folders or folders[-1] != benchmark.folder or not _WANTED.fullmatch(name):
            continue
        if name in found:
            raise DataError(f"'{archive}' contains '{name}' of {benchmark.folder} twice.")
        too_dense = member.file_size > _DENSEST * max(member.compress_size, 1) + _CHUNK
        if member.file_size > largest or too_dense:
            raise DataError(f"'{archive}': '{member.filename}' is too large.")
        if member.flag_bits & 1:
            raise DataError(f"'{archive}': '{member.filename}' is encrypted.")
        if member.compress_type not in _PACKED:
            raise DataError(
                f"'{archive}': '{member.filename}' uses an unsupported compression method."
            )
        found[name] = member
    if sum(member.file_size for member in found.values()) > 2 * largest:
        raise DataError(f"'{archive}': {benchmark.folder} is too large.")
    if "train.txt" not in found:
        raise DataError(f"'{archive}' has no folder {benchmark.folder} with a train.txt.")
    return [(member, name) for name, member in sorted(found.items())]


def _write(
    opened: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    path: Path,
    done: int,
    progress: ReportProgress,
) -> int:
    left = member.file_size
    with opened.open(member) as source, path.open("xb") as file:
        while chunk := source.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise zipfile.BadZipFile(f"'{member.filename}' is longer than declared")
            file.write(chunk)
            done += len(chunk)
            progress(Progress("unpacking", done))
    return done


# --- from the network -----------------------------------------------------------------------------
