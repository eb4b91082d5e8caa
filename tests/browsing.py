"""The page in a real browser, brought into each of its states.

The tests look at these states, and so do the documents:

    clmpt serve clmpt-world &
    python tests/browsing.py http://127.0.0.1:8000/ docs/pictures

takes the pictures of the page that are in them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, Request, sync_playwright

QUESTION = '?c : official_language(?c, French) & !member_of(?c, "European Union")'
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# Nothing that a browser does by itself over a network.
_QUIET = [f"--disable-{what}" for what in ("gpu", "quic", "component-update", "sync")]
_QUIET += ["--disable-background-networking", "--no-first-run", "--lang=en"]


@dataclass
class Visit:
    """A page that is open, and what went wrong in it."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def watch(self) -> None:
        own = urlsplit(self.url).netloc

        def note(request: Request) -> None:
            if (
                urlsplit(request.url).scheme.startswith("http")
                and own != urlsplit(request.url).netloc
            ):
                self.elsewhere.append(request.url)

        self.page.on("request", note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._hear)

    def _hear(self, message: object) -> None:
        if getattr(message, "type", "") in ("error", "warning"):
            self.complaints.append(str(getattr(message, "text", message)))

    def start(self, path: str = "") -> None:
        self.page.goto(self.url + path)
        self.page.wait_for_selector("#examples li", state="attached", timeout=30_000)


@contextmanager
def chromium() -> Iterator[Browser]:
    sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=[*_QUIET, *sandbox])
        yield browser
        browser.close()


@contextmanager
def visit(
    browser: Browser, url: str, width: int = 1280, height: int = 900, dark: bool = False
) -> Iterator[Visit]:
    scheme = "dark" if dark else "light"
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,  # type: ignore[arg-type]
        permissions=["clipboard-read", "clipboard-write"],
    )
    found = Visit(context.new_page(), url)
    found.watch()
    yield found
    context.close()


# --- states ---------------------------------------------------------------------------------------


def asked(visit: Visit, question: str = QUESTION) -> None:
    visit.page.fill("#question", question)
    visit.page.press("#question", "Enter")
    visit.page.wait_for_selector("#results[aria-busy=false] button.answer", timeout=30_000)


def evidence(visit: Visit) -> None:
    """The likeliest answer that does not follow from the facts, opened."""
    asked(visit)
    visit.page.click("[aria-label='Likely answers'] .answer >> nth=0")
    visit.page.wait_for_selector("#details .atoms li", timeout=30_000)
    visit.page.wait_for_selector("#details .facts li", timeout=30_000)


def completing(visit: Visit) -> None:
    visit.page.click("#question")
    visit.page.keyboard.type("?x : borders(?x, Fran")
    visit.page.wait_for_selector("#suggestions li")


def built(visit: Visit) -> None:
    """`borders(the answer, France) and not member_of(the answer, …)`, by choosing."""
    visit.page.click("#tab-build")
    choose(visit, 1, "Relation", "border", "borders")
    choose(visit, 1, "Second thing", "franc", "France")
    visit.page.click("text=+ and not")
    choose(visit, 2, "Relation", "member", "member_of")
    choose(visit, 2, "Second thing", "european u", "European Union")


def choose(visit: Visit, condition: int, what: str, typed: str, chosen: str) -> None:
    field = visit.page.get_by_label(f"{what} of condition {condition}", exact=True)
    field.fill(typed)
    visit.page.get_by_role("option", name=chosen, exact=False).first.click()


def about(visit: Visit) -> None:
    visit.page.click("#to-about")
    visit.page.wait_for_selector("#about-view .figures")


def mistaken(visit: Visit) -> None:
    visit.page.fill("#question", "?x : borders(?x, Frnace)")
    visit.page.press("#question", "Enter")
    visit.page.wait_for_selector(".mirror .wrong")


STATES: dict[str, Callable[[Visit], None]] = {
    "asked": asked,
    "evidence": evidence,
    "completing": completing,
    "built": built,
    "about": about,
    "mistaken": mistaken,
}


def main() -> None:
    url, folder = sys.argv[1], Path(sys.argv[2])
    with chromium() as browser:
        for name, dark in (("asked", False), ("evidence", True), ("about", False)):
            with visit(browser, url, 1200, 860, dark) as found:
                found.start()
                STATES[name](found)
                found.page.wait_for_timeout(500)
                found.page.screenshot(path=folder / f"page-{name}.png")


if __name__ == "__main__":
    main()
