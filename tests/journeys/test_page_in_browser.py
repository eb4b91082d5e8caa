"""The page, used as people use it: in Chromium, by keyboard and by clicks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from browsing import (
    CHROMIUM,
    QUESTION,
    STATES,
    Visit,
    asked,
    built,
    choose,
    chromium,
    completing,
    evidence,
    mistaken,
    visit,
)
from clmpt.graph.knowledge_graph import KnowledgeGraph
from service_process import RunningService, running_service

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

SCRIPT = "<script>document.title='run'</script>"
LONG = "very " * 100 + "long"
STRANGE = [
    (SCRIPT, "knows", "<img src=x onerror=\"document.title='run'\">"),
    ("مصطفى", "يعرف", "דוד"),
    ("👩‍🚀🚀", "flew to", "🌙"),
    (LONG, "knows", "👩‍🚀🚀"),
    (LONG, "knows", SCRIPT),
    ("=1+1", "knows", SCRIPT),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def world(world_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("page")
    strange = folder / "strange"
    KnowledgeGraph.from_triples(STRANGE).save(strange)
    with running_service(folder, str(world_model), str(strange)) as service:
        yield service


@pytest.fixture
def page(browser: Browser, world: RunningService) -> Iterator[Visit]:
    """The page, wide; nothing may go wrong in it, and nothing may be fetched from elsewhere."""
    with visit(browser, world.url + "/") as found:
        found.start()
        yield found
        assert found.complaints == []
        assert found.elsewhere == []


def test_a_question_is_written_with_completion(page: Visit) -> None:
    completing(page)
    first = page.page.locator("#suggestions li").first
    expect(first).to_have_attribute("aria-selected", "true")
    page.page.get_by_role("option", name=re.compile("^France")).first.click()
    page.page.keyboard.type(") & !mem")
    page.page.wait_for_selector("#suggestions li.relation")
    page.page.keyboard.press("Enter")
    page.page.keyboard.type('?x, "European U')
    page.page.wait_for_selector("#suggestions li.entity")
    page.page.keyboard.press("Tab")
    page.page.keyboard.type(")")
    text = '?x : borders(?x, France) & !member_of(?x, "European Union")'
    expect(page.page.locator("#question")).to_have_value(text)
    expect(page.page.locator("#drawing .node")).to_have_count(3)  # follows while it is written
    page.page.keyboard.press("Enter")
    answers = page.page.get_by_label("Answers from the facts")
    expect(answers).to_contain_text("Switzerland", timeout=30_000)
    expect(answers.locator(".answer.known .badge").first).to_have_text("known")


def test_names_offered_for_an_earlier_text_are_not_taken(page: Visit) -> None:
    completing(page)
    page.page.fill("#question", "?x : borders(?x, Spain)")  # as when it is pasted
    page.page.press("#question", "Enter")
    page.page.wait_for_selector("#results[aria-busy=false] button.answer", timeout=30_000)
    expect(page.page.locator("#question")).to_have_value("?x : borders(?x, Spain)")


def test_a_question_is_built_by_clicks_and_is_the_same_question_as_text(page: Visit) -> None:
    built(page)
    page.page.click("#go")
    expect(page.page.get_by_label("Answers from the facts")).to_contain_text(
        "Switzerland", timeout=30_000
    )
    page.page.click("#tab-write")
    text = '?x : borders(?x, France) & !member_of(?x, "European Union")'
    expect(page.page.locator("#question")).to_have_value(text)


def test_the_builder_takes_over_what_was_written(page: Visit) -> None:
    asked(page, '?a : borders(?a, France) | borders(?b, ?a) & coast(?b, "North Sea")')
    page.page.click("#tab-build")
    conditions = page.page.get_by_role("group", name=re.compile("^Condition"))
    expect(conditions).to_have_count(3)
    choose(page, 1, "Second thing", "spai", "Spain")
    expect(page.page.locator("#formula")).to_have_text(
        '?x : borders(?x, Spain) | borders(?y, ?x) & coast(?y, "North Sea")'
    )


def test_an_answer_shows_its_evidence_and_leads_on(page: Visit) -> None:
    evidence(page)
    details = page.page.locator("#details")
    label = details.locator("h2").inner_text()
    expect(details.locator("path.edge.predicted, path.edge.negated").first).to_be_visible()
    atoms = details.locator(".atoms li").all_inner_texts()
    assert any(label in text for text in atoms)
    details.locator(".facts button").first.click()  # to a neighbour
    expect(details.locator(".trail li")).to_have_count(2)
    details.locator(".trail button").first.click()  # and back
    expect(details.locator(".trail li")).to_have_count(1)
    details.get_by_label("Next answer").click()
    expect(details.locator("h2")).not_to_have_text(label)
    page.page.keyboard.press("Escape")
    expect(details).not_to_be_visible()


def test_the_slider_says_how_sure_it_must_be(page: Visit) -> None:
    asked(page)
    likely = page.page.locator("[aria-label='Likely answers'] .answer")
    before = likely.count()
    page.page.locator("#sure").fill("30")
    shown = page.page.locator("[aria-label='Likely answers'] .chance").all_inner_texts()
    assert 0 < len(shown) < before
    assert min(int(re.findall(r"\d+", text)[0]) for text in shown) >= 30
    expect(page.page.locator(".summary")).to_contain_text(f"{len(shown)} predicted")


def test_the_link_reopens_the_question(browser: Browser, page: Visit) -> None:
    asked(page)
    page.page.locator("#sure").fill("25")
    link = page.page.url
    names = page.page.locator("button.answer .what").all_inner_texts()
    with visit(browser, link) as again:
        again.start()
        again.page.wait_for_selector("#results[aria-busy=false] button.answer", timeout=30_000)
        assert again.page.locator("#question").input_value() == QUESTION
        assert again.page.locator("button.answer .what").all_inner_texts() == names
    asked(page, "?x : borders(?x, Spain)")
    page.page.go_back()
    expect(page.page.locator("#question")).to_have_value(QUESTION)


def test_answers_can_be_taken_away(page: Visit, world: RunningService, tmp_path: Path) -> None:
    asked(page)
    found: dict[str, str] = {}
    for button, name in (("CSV file", "answers.csv"), ("JSON file", "answers.json")):
        page.page.click(".menu summary")
        with page.page.expect_download() as download:
            page.page.click(f"text={button}")
        download.value.save_as(tmp_path / name)
        found[name] = (tmp_path / name).read_bytes().decode()
    listed = json.loads(found["answers.json"])
    assert listed["question"] == QUESTION
    assert found["answers.csv"].startswith("label,name,probability,status\r\n")
    assert len(found["answers.csv"].splitlines()) == 1 + len(listed["answers"])
    copied = {}
    for name in ("link", "for curl", "for Python"):
        page.page.click(".menu summary")
        page.page.click(f"text=Copy {name}")
        page.page.wait_for_timeout(100)
        copied[name] = page.page.evaluate("navigator.clipboard.readText()")
    assert copied["link"] == page.page.url
    assert copied["for curl"].startswith(f"curl -G {world.url}/ask --data-urlencode 'question=?c")
    space: dict[str, Any] = {}
    exec(copied["for Python"], space)
    assert space["found"]["answers"]


def test_a_mistake_is_marked_where_it_is_and_mended_by_a_click(page: Visit) -> None:
    mistaken(page)
    expect(page.page.locator("#problem")).to_contain_text("Unknown entity 'Frnace' at column 18")
    expect(page.page.locator(".mirror .wrong")).to_have_text("Frnace")
    page.page.click("#problem button >> text=France >> nth=0")
    expect(page.page.locator("#question")).to_have_value('?x : borders(?x, "France")')
    expect(page.page.locator("#problem")).to_be_empty()


def test_sparql_that_says_more_is_shown_as_rows(page: Visit) -> None:
    page.page.fill(
        "#question",
        "SELECT ?l (COUNT(?c) AS ?n) { ?c :official_language ?l } "
        "GROUP BY ?l ORDER BY DESC(?n) LIMIT 3",
    )
    page.page.click("#go")
    expect(page.page.locator("#results table")).to_have_count(2, timeout=30_000)
    expect(page.page.locator("#results table").first).to_contain_text("English")


def test_several_variables_have_rows(page: Visit) -> None:
    asked(page, "?c, ?l : borders(?c, France) & official_language(?c, ?l)")
    expect(page.page.locator("button.answer .what").first).to_contain_text("·")


def test_examples_can_be_asked(page: Visit) -> None:
    example = page.page.locator("#examples button").first
    text = example.inner_text()
    example.click()
    page.page.wait_for_selector("#results[aria-busy=false] button.answer", timeout=30_000)
    assert page.page.locator("#question").input_value() == text


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_no_state_shuts_anybody_out(
    browser: Browser, world: RunningService, state: str, dark: bool
) -> None:
    """By axe: contrast, names of controls, roles, and the like."""
    with visit(browser, world.url + "/", dark=dark) as found:
        found.start()
        STATES[state](found)
        found.page.wait_for_timeout(300)
        results = Axe().run(found.page)
        serious = [one for one in results.response["violations"] if one["impact"] != "minor"]
        told = [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in serious]
        assert told == []


@pytest.mark.parametrize("state", STATES)
def test_nothing_is_cut_off_on_a_narrow_screen(
    browser: Browser, world: RunningService, state: str
) -> None:
    with visit(browser, world.url + "/", 360, 740) as found:
        found.start()
        STATES[state](found)
        wide = found.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 360
        assert found.complaints == []


def test_the_page_is_used_without_a_mouse(page: Visit) -> None:
    page.page.keyboard.press("Tab")
    page.page.keyboard.press("Enter")  # skips to the question
    page.page.keyboard.type("?x : borders(?x, Monaco)")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#results[aria-busy=false] button.answer", timeout=30_000)
    page.page.locator("button.answer").first.focus()
    page.page.keyboard.press("Enter")
    expect(page.page.locator("#details")).to_be_visible()
    page.page.keyboard.press("Escape")
    focused = page.page.evaluate("document.activeElement.className")
    assert focused.startswith("answer")  # back where it was


@pytest.mark.parametrize("width", [360, 1280])
def test_names_of_any_kind_are_names_and_nothing_else(
    browser: Browser, world: RunningService, width: int
) -> None:
    """Scripts, markup, two directions of writing, emoji of several signs, 500 letters."""
    with visit(browser, world.url + "/", width) as found:
        for relation, tail in (("knows", SCRIPT), ("يعرف", "דוד"), ("flew to", "🌙")):
            question = f"?x : {json.dumps(relation)}(?x, {json.dumps(tail, ensure_ascii=False)})"
            found.start(f"?model=strange&question={quote(question)}")
            found.page.wait_for_selector("#results[aria-busy=false] button.answer", timeout=30_000)
            found.page.click("button.answer >> nth=0")
            found.page.wait_for_selector("#details .facts")
            assert found.page.evaluate("document.documentElement.scrollWidth") <= width
            assert found.page.evaluate("document.getElementById('details').scrollWidth") <= width
        assert found.page.title() == "clmpt"
        assert found.page.locator("script").count() == 1
        assert found.complaints == []


def test_a_spreadsheet_runs_nothing(
    browser: Browser, world: RunningService, tmp_path: Path
) -> None:
    with visit(browser, world.url + "/") as found:
        question = f"?x : knows(?x, {json.dumps(SCRIPT)})"
        found.start(f"?model=strange&question={quote(question)}")
        found.page.wait_for_selector("#results[aria-busy=false] button.answer", timeout=30_000)
        found.page.click(".menu summary")
        with found.page.expect_download() as download:
            found.page.click("text=CSV file")
        download.value.save_as(tmp_path / "answers.csv")
        assert "'=1+1" in (tmp_path / "answers.csv").read_text()


def test_a_token_is_asked_for_once(browser: Browser, tmp_path: Path) -> None:
    KnowledgeGraph.from_triples([("a", "r", "b")]).save(tmp_path / "g")
    with (
        running_service(tmp_path, str(tmp_path / "g"), "--token", "secret") as service,
        visit(browser, service.url + "/") as found,
    ):
        found.page.goto(found.url)
        found.page.fill("#token-text", "secret")
        found.page.click("#token button")
        found.page.wait_for_selector("#examples li")
        asked(found, "?x : r(?x, b)")
        found.page.reload()
        found.page.wait_for_selector("#examples li")
