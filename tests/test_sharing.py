"""Models for others: a card, a folder on a hub, and folders of strangers from there."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import yaml

import clmpt
from clmpt.answering.answerer import Answerer
from clmpt.cli.main import main
from clmpt.errors import DataError, MissingLibrary
from clmpt.pages.model_facts import model_facts
from clmpt.progress import Progress
from clmpt.sharing.hub import pull, push
from clmpt.sharing.model_card import card_text, write_card
from clmpt.sharing.shared_files import shared_in
from hub_stand_in import Hub, standing_in

Captured = pytest.CaptureFixture[str]
QUESTION = "?y : r0(e0, ?y)"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setenv("HF_TOKEN", "hf_of_a_stand_in")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "no-token"))
    with standing_in() as found:
        yield found


@pytest.fixture
def offered(hub: Hub, fitted: Path) -> Hub:
    """A hub that has the small model, as if it had been pushed."""
    model = fitted / "model"
    hub.files = {name: (model / name).read_bytes() for name in shared_in(model)}
    return hub


def fetch(hub: Hub, out: Path, progress: Any = False, **more: Any) -> Path:
    return pull("someone/model", out, endpoint=hub.url, progress=progress, **more)


def answers(folder: Path) -> list[tuple[str, float]]:
    return [(one.name, one.score) for one in clmpt.load(folder, "cpu").ask(QUESTION)]


# --- to the hub and back --------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # huggingface_hub's use of its client
def test_a_pushed_model_answers_the_same_when_pulled(
    hub: Hub, fitted: Path, tmp_path: Path
) -> None:
    address = push(fitted / "model", "someone/model", licence="cc-by-4.0", endpoint=hub.url)
    assert address == f"{hub.url}/someone/model"
    assert hub.created[0]["visibility"] == "private"
    made = fetch(hub, tmp_path / "pulled")
    assert answers(made) == answers(fitted / "model")
    card = (made / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["license"] == "cc-by-4.0"
    assert json.loads((made / "config.json").read_text())["reasoner"] == "hybrid"
    # Nothing of this machine: neither runs with their paths, nor queries, nor logs.
    whole = b"".join(hub.files.values())
    assert str(fitted).encode() not in whole
    assert not [name for name in hub.files if name.endswith(("run.json", "queries", "jsonl"))]
    assert [path.name for path in tmp_path.iterdir()] == ["pulled"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_card_of_one_s_own_is_pushed_as_it_is(hub: Hub, fitted: Path, tmp_path: Path) -> None:
    shutil.copytree(fitted / "model", tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("---\nlicense: mit\n---\nMine.\n")
    push(tmp_path / "model", "someone/model", public=True, endpoint=hub.url)
    assert hub.files["README.md"] == b"---\nlicense: mit\n---\nMine.\n"
    assert hub.created[0].get("visibility") == "public"


def test_a_saved_model_has_its_card_and_its_figures(fitted: Path, tmp_path: Path) -> None:
    clmpt.load(fitted / "model", "cpu").save(tmp_path / "saved")
    own, saved = card_text(fitted / "model", "a/b"), card_text(tmp_path / "saved", "a/b")
    without_day = [line for line in own.splitlines() if not line.startswith("| trained |")]
    assert saved.splitlines() == without_day  # when it was trained is not kept
    assert all(is_known for is_known in map(shared_in(tmp_path / "saved").count, NEEDED_FILES))


NEEDED_FILES = ("graph/keys.npy", "reasoner/calibration.json", "report/report.json", "choice.json")


# --- the card -------------------------------------------------------------------------------------


def test_a_card_has_figures_origin_versions_and_the_way_to_load_it(
    fitted: Path, tmp_path: Path
) -> None:
    shutil.copytree(fitted / "model", tmp_path / "model")
    path = write_card(tmp_path / "model", "someone/model", "mit", ["someone/facts"])
    _, header, text = path.read_text().split("---\n", 2)
    about = yaml.safe_load(header)
    assert (about["license"], about["datasets"], about["library_name"]) == (
        *("mit", ["someone/facts"]),
        "clmpt",
    )
    report = json.loads((tmp_path / "model" / "report" / "report.json").read_text())
    (metric,) = about["model-index"][0]["results"][0]["metrics"]
    assert metric["value"] == pytest.approx(report["mean"], abs=1e-4)
    for part in (f"clmpt {clmpt.__version__}, python", 'clmpt.pull("someone/model"', "40 entities"):
        assert part in text
    assert write_card(tmp_path / "model", "someone/model", "mit", ["someone/facts"]) == path
    with pytest.raises(DataError, match="already exists"):
        write_card(tmp_path / "model")


def test_no_name_breaks_the_card_s_header(fitted: Path) -> None:
    evil = 'x"\n---\nlicense: mit # <script>'
    _, header, text = card_text(fitted / "model", evil, evil, [evil]).split("---\n", 2)
    about = yaml.safe_load(header)
    assert (about["license"], about["datasets"]) == (evil, [evil])
    assert about["model-index"][0]["name"] == evil
    assert "<script>" not in text.split("## Use")[0]


def test_a_checkpoint_says_which_version_made_it(fitted: Path, capsys: Captured) -> None:
    for place in (fitted / "model", fitted / "model" / "predictor", fitted / "model" / "reasoner"):
        assert model_facts(place).versions["clmpt"] == clmpt.__version__
        assert main(["info", str(place), "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["model"]["versions"]["clmpt"] == clmpt.__version__
        assert main(["info", str(place)]) == 0
        assert f"made with\tclmpt {clmpt.__version__}" in capsys.readouterr().out


def test_a_damaged_description_is_reported(fitted: Path, tmp_path: Path) -> None:
    shutil.copytree(fitted / "model" / "predictor", tmp_path / "p")
    texts = ("[]", "{", '{"model": 1, "versions": [1]}', '{"model": "x", "parameters": {"a": "b"}}')
    for text in texts:
        (tmp_path / "p" / "predictor.json").write_text(text)
        with pytest.raises(DataError, match="damaged"):
            model_facts(tmp_path / "p")


# --- folders of strangers -------------------------------------------------------------------------


def test_only_data_files_with_our_names_are_fetched(offered: Hub, tmp_path: Path) -> None:
    ours = set(offered.files)
    for name in (
        *("setup.py", "model.pkl", "reasoner/weights.bin", "reasoner/run.json", ".gitattributes"),
        *("graph/../../outside.npy", "/etc/evil.npy", "graph/deeper/keys.npy", "graph/KEYS.npy"),
    ):
        offered.files[name] = b"import os"
    made = fetch(offered, tmp_path / "pulled")
    assert set(offered.fetched) == ours
    there = {p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file()}
    assert there == ours
    assert not (tmp_path.parent / "outside.npy").exists()


@pytest.mark.parametrize("name", ["reasoner/weights.safetensors", "choice.json"])
def test_what_is_too_large_is_refused_before_it_is_fetched(
    offered: Hub, tmp_path: Path, name: str
) -> None:
    offered.claimed[name] = 10**12
    with pytest.raises(DataError, match="too large"):
        fetch(offered, tmp_path / "pulled")
    with pytest.raises(DataError, match="too large"):
        fetch(offered, tmp_path / "pulled", largest=1000)
    assert offered.fetched == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_what_the_hub_described_is_refused(offered: Hub, tmp_path: Path) -> None:
    offered.lying = {"reasoner/weights.safetensors", "choice.json"}
    with pytest.raises(DataError, match=r"choice\.json.* did not arrive as"):
        fetch(offered, tmp_path / "pulled")
    assert not (tmp_path / "pulled").exists()
    offered.lying = set()
    assert fetch(offered, tmp_path / "pulled").is_dir()


def stop_at(name: str) -> Callable[[Progress], None]:
    def report(now: Progress) -> None:
        if now.detail == name:
            raise KeyboardInterrupt

    return report


def test_an_interrupted_pull_leaves_nothing_half_and_resumes(offered: Hub, tmp_path: Path) -> None:
    last = max(offered.files)
    with pytest.raises(KeyboardInterrupt):
        fetch(offered, tmp_path / "pulled", stop_at(last))
    assert not (tmp_path / "pulled").exists()
    first = list(offered.fetched)
    assert len(first) == len(offered.files) - 1
    fetch(offered, tmp_path / "pulled")
    assert offered.fetched[len(first) :] == [last]
    assert [path.name for path in tmp_path.iterdir()] == ["pulled"]


def test_a_pull_of_another_state_starts_anew(offered: Hub, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fetch(offered, tmp_path / "pulled", stop_at(max(offered.files)))
    offered.fetched.clear()
    offered.commit = "f" * 40
    fetch(offered, tmp_path / "pulled")
    assert len(offered.fetched) == len(offered.files)


def test_a_pull_is_not_repeated_unless_the_hub_has_changed(offered: Hub, tmp_path: Path) -> None:
    fetch(offered, tmp_path / "pulled")
    offered.fetched.clear()
    assert fetch(offered, tmp_path / "pulled") == tmp_path / "pulled"
    assert not offered.fetched
    (tmp_path / "pulled" / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="already exists, and is not what the hub has now"):
        fetch(offered, tmp_path / "pulled")


def test_nothing_in_the_way_is_touched(offered: Hub, tmp_path: Path) -> None:
    for name in ("pulled", "other.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="already exists"):
        fetch(offered, tmp_path / "pulled")
    with pytest.raises(DataError, match="is in the way"):
        fetch(offered, tmp_path / "other")
    assert (tmp_path / "other.partial" / "mine.txt").read_text() == "mine"


def test_a_pulled_folder_cannot_name_code_to_run(offered: Hub, tmp_path: Path) -> None:
    about = json.loads(offered.files["reasoner/reasoner.json"])
    about["reasoner"] = "antigravity:Evil"
    offered.files["reasoner/reasoner.json"] = json.dumps(about).encode()
    fetch(offered, tmp_path / "pulled")
    with pytest.raises(DataError):
        Answerer.open(tmp_path / "pulled", device="cpu")


# --- what can go wrong ----------------------------------------------------------------------------


def test_what_is_no_model_is_refused(hub: Hub, fitted: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a model"):
        push(tmp_path, "someone/model", endpoint=hub.url)
    with pytest.raises(DataError, match="cannot be shared"):
        push(fitted / "model" / "predictor", "someone/model", endpoint=hub.url)
    hub.files = {"README.md": b"# Not ours", "pytorch_model.bin": b"x"}
    with pytest.raises(DataError, match="has no model of clmpt"):
        fetch(hub, tmp_path / "pulled")
    assert hub.created == []


@pytest.mark.parametrize("name", ["nobody/model", "a/b/c", "no spaces", ""])
def test_a_name_that_the_hub_does_not_have_is_refused_in_one_line(
    hub: Hub, tmp_path: Path, name: str
) -> None:
    with pytest.raises(DataError, match="The hub refused") as refused:
        pull(name, tmp_path / "pulled", endpoint=hub.url, progress=False)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_hub_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="The hub refused"):
        pull("a/b", tmp_path / "pulled", endpoint="http://127.0.0.1:9", progress=False)


def test_sharing_without_its_library_says_what_to_install(
    fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingLibrary, match=r"pip install 'clmpt\[hub\]'"):
        push(fitted / "model", "a/b")
    assert main(["pull", "a/b", "--out", str(tmp_path / "x")]) == 2
    assert "clmpt[hub]" in capsys.readouterr().err
    shutil.copytree(fitted / "model", tmp_path / "model")
    assert main(["card", str(tmp_path / "model"), "--license", "mit"]) == 0  # needs no library
