"""YASGUI, the editor of many public endpoints, in a real browser, from another origin."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from browsing import CHROMIUM, chromium, visit
from clmpt.cli.main import main
from service_process import RunningService, running_service

BUILD = Path(__file__).parents[2] / ".venv/node/node_modules/@triply/yasgui/build"
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(not BUILD.is_dir(), reason="YASGUI is not installed ('make clients' does)"),
]
PAGE = """<!doctype html><title>YASGUI</title><link rel="stylesheet" href="yasgui.min.css">
<div id="yasgui"></div><script src="yasgui.min.js"></script><script>
const editor = new Yasgui(document.getElementById("yasgui"), {
  requestConfig: { endpoint: ENDPOINT }, copyEndpointOnNewTab: false, persistenceId: null,
});
</script>"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Says nothing."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    (tmp_path / "films.ttl").write_text(
        "@prefix : <http://e/> . :Ugetsu :year 1953 . :Oharu :year 1952 .", encoding="utf-8"
    )
    assert main(["import", str(tmp_path / "films.ttl"), "--out", str(tmp_path / "films")]) == 0
    with running_service(tmp_path, str(tmp_path / "films")) as running:
        yield running


def test_yasgui_shows_rows(service: RunningService, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    for name in ("yasgui.min.js", "yasgui.min.css"):
        (site / name).symlink_to(BUILD / name)
    (site / "index.html").write_text(PAGE.replace("ENDPOINT", f'"{service.url}/sparql"'))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with chromium() as browser, visit(browser, f"http://127.0.0.1:{server.server_port}/") as found:
        found.page.goto(found.url)
        found.page.wait_for_selector(".yasqe_queryButton")
        found.page.evaluate(
            "editor.getTab().setQuery('SELECT ?f ?y { ?f <http://e/year> ?y } ORDER BY ?y')"
        )
        found.page.click(".yasqe_queryButton")
        found.page.wait_for_selector(".yasr table tbody tr", timeout=30_000)
        assert "1952" in found.page.inner_text(".yasr table tbody tr >> nth=0")
    server.shutdown()
    server.server_close()
