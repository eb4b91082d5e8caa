"""Commands in several processes: started by --processes, or by torchrun itself."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from clmpt.compute.processors import available_processors
from clmpt.errors import SettingError
from clmpt.sampling.shares import Alone, Share


def _is_launched() -> bool:
    """Whether torchrun started this process among others; asked before torch is imported."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def wants_more(options: argparse.Namespace) -> bool:
    """Whether the command is to be run by torchrun."""
    return (vars(options).get("processes") or 1) > 1 and not _is_launched()


def launch(arguments: Sequence[str], processes: int) -> int:
    """Runs the same command by torchrun, in several processes; the exit code of the first that
    failed."""
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)  # we say what went wrong
    words = ["--standalone", f"--nproc-per-node={processes}", "-m", "clmpt", *arguments]
    os.environ["OMP_NUM_THREADS"] = str(max(1, available_processors() // processes))
    try:
        torchrun.run(torchrun.parse_args(words))  # type: ignore[no-untyped-call]
    except ChildFailedError as failed:
        _, failure = failed.get_first_failure()
        if failure.exitcode < 0:
            sys.stderr.write(
                f"clmpt: process {failure.local_rank + 1} of {processes} was killed. "
                "Run the same command again to resume.\n"
            )
        return failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    return 0


def share_of_command() -> Share:
    """Of work that needs no torch, unless torchrun started several processes."""
    if not _is_launched():
        return Alone()
    from clmpt.compute.distributed import Together

    return Together()


@contextmanager
def together(options: argparse.Namespace) -> Iterator[None]:
    """The command's place among the processes that torchrun started; one of them talks."""
    if not _is_launched():
        yield
        return
    if "processes" not in vars(options):
        raise SettingError(
            "This command works in a single process. Start it without torchrun, or see which "
            "commands have --processes."
        )
    from clmpt.compute import distributed
    from clmpt.compute.joining import joined_processes

    with joined_processes():
        if not distributed.is_shown():
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
        yield
