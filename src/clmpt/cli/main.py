"""The command line. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper

from clmpt.cli.command_line import parse_arguments
from clmpt.cli.together import launch, together, wants_more
from clmpt.compute.processors import available_processors, prepare_torch
from clmpt.errors import ClmptError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. 0: done; 1: a check failed; 2: bad input; 130: stopped by Ctrl-C; 143: by
    SIGTERM, which stops it in the same way."""
    prepare_torch()
    os.environ.setdefault("OMP_NUM_THREADS", str(available_processors()))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that lacks a character still shows the rest
    try:
        words = sys.argv[1:] if arguments is None else arguments
        options = parse_arguments(words)
        if wants_more(options):
            return launch(words, options.processes)
        with _terminable(), together(options):
            return int(_command(options.run)(options) or 0)
    except ClmptError as error:
        return _refused(str(error))
    except KeyboardInterrupt as stop:
        sys.stderr.write("clmpt: stopped.\n")
        return 143 if isinstance(stop, _Terminated) else 130
    except BrokenPipeError:  # the reader of our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        what = f"'{error.filename}': " if error.filename else ""
        return _refused(f"{what}{error.strerror or error}.")
    except (MemoryError, RuntimeError) as error:
        if not _wants_memory(error):
            raise
        return _refused(
            "Out of memory. A lower rank, smaller batches and fewer negatives or workers need "
            "less; --plan, where a command has it, estimates how much."
        )


class _Terminated(KeyboardInterrupt):
    """SIGTERM, where it is handled like Ctrl-C."""


def _terminate(number: int, frame: object) -> None:  # noqa: ARG001
    raise _Terminated


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM stops the block as Ctrl-C does, so that whatever saves or tidies up still does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _wants_memory(error: Exception) -> bool:
    """PyTorch's out-of-memory errors have no class of their own on processors."""
    said = re.search("out of memory|allocate memory|enough memory", str(error))
    return isinstance(error, MemoryError) or said is not None


def _refused(reason: str) -> int:
    from clmpt.cli.output import clean

    sys.stderr.write(f"clmpt: {clean(reason)}\n")
    return 2


def _command(path: str) -> Callable[[argparse.Namespace], int | None]:
    module, name = path.split(":")
    command: Callable[[argparse.Namespace], int | None] = getattr(
        import_module(f"clmpt.cli.commands.{module}"), name
    )
    return command
