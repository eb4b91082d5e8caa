"""serve: models and graphs over HTTP."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

from clmpt.cli.output import say, tell
from clmpt.errors import MissingLibrary, SettingError
from clmpt.pages.model_facts import is_model
from clmpt.service.service_settings import ServedFolder, ServiceSettings


def serve_folders(options: argparse.Namespace) -> None:
    try:
        from clmpt.service.running import serve
    except ModuleNotFoundError as error:
        raise MissingLibrary(error.name or "fastapi", "'clmpt serve'", "'clmpt[serve]'") from None
    settings = ServiceSettings(
        folders=_folders(options.folders, options.graph),
        token=options.token or os.environ.get("CLMPT_TOKEN") or None,
        time_limit=options.time_limit,
        memory_limit=options.memory_limit,
        waiting=options.waiting,
        read_timeout=options.read_timeout,
        json_logs=options.json,
        device=options.device or "auto",
        trust=tuple(options.trust or ()),
    )
    if not _is_local(options.host) and settings.token is None:
        tell(
            f"Warning: anybody who can reach '{options.host}' can ask. Use --token, or put a "
            "server with authentication before it."
        )
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"http://{host}:{options.port}"
    say(f"Opening {', '.join(folder.name for folder in settings.folders)} …")
    serve(settings, options.host, options.port, options.workers, lambda: _announce(address))


def _announce(address: str) -> None:
    say(f"Ready: {address}  (SPARQL: {address}/sparql, what is likely: {address}/likely/sparql)")
    say("Ctrl-C stops it.")


def _folders(paths: list[str], graph: str | None) -> tuple[ServedFolder, ...]:
    found = tuple(_folder(Path(path)) for path in paths)
    if graph is not None:
        if len(found) != 1 or not found[0].is_model:
            raise SettingError("--graph is for a single model: the graph that it answers about.")
        found = (replace(found[0], graph=str(Path(graph).resolve())),)
    names = [folder.name for folder in found]
    if len(set(names)) < len(names):
        raise SettingError(f"Two of these have the same name: {', '.join(names)}. Rename one.")
    return found


def _folder(path: Path) -> ServedFolder:
    name = path.resolve().name
    if path.is_dir() and is_model(path):
        return ServedFolder(name, str(path.resolve()), True)
    return ServedFolder(path.name.split(".")[0] if path.is_file() else name, str(path), False)


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
