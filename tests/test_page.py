"""Pages: the same content as Markdown and as HTML, with everything escaped."""

from __future__ import annotations

from xml.etree import ElementTree

from clmpt.pages.charts import Cluster, draw_clusters
from clmpt.pages.page import Bullets, Heading, Page, Picture, Table, Text

PAGE = Page(
    "Results & more",
    [
        Heading("Figures"),
        Text("a < b and *c*"),
        Table(["MRR", "1p"], [["ours", "1.0"], ["theirs|x", "2.0"]], quiet_from=1),
        Bullets(["one", "two\nlines"]),
        Picture("bars.svg", "bars", "<svg/>"),
    ],
)


def test_markdown() -> None:
    assert PAGE.markdown() == (
        "# Results & more\n\n"
        "## Figures\n\n"
        "a \\< b and \\*c\\*\n\n"
        "| MRR | 1p |\n| --- | ---: |\n| ours | 1.0 |\n| theirs\\|x | 2.0 |\n\n"
        "- one\n- two lines\n\n"
        "![bars](bars.svg)\n"
    )


def test_html() -> None:
    text = PAGE.html()
    assert "<h1>Results &amp; more</h1>" in text
    assert "<p>a &lt; b and *c*</p>" in text
    assert '<tr class="quiet"><td>theirs|x</td><td>2.0</td></tr>' in text
    assert '<figure role="img" aria-label="bars"><svg/></figure>' in text


def test_clusters_have_a_bar_for_each_series_and_fit_the_picture() -> None:
    series = [f"model number {number}" for number in range(7)]
    clusters = [Cluster(name, [10.0 * (at + 1) for at in range(7)]) for name in ("1p", "<2p>")]
    root = ElementTree.fromstring(draw_clusters("bars", series, clusters))
    space = "{http://www.w3.org/2000/svg}"
    bars = [rect for rect in root.findall(f"{space}rect") if rect.find(f"{space}title") is not None]
    assert len(bars) == 14
    heights = [float(bar.attrib["height"]) for bar in bars[:7]]
    assert heights == sorted(heights)
    assert abs(heights[6] / heights[0] - 7) < 0.05
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for text in root.findall(f"{space}text"):
        assert 0 <= float(text.attrib["x"]) < width
        assert 0 < float(text.attrib["y"]) <= height


def test_names_of_many_bars_are_slanted_rather_than_cut() -> None:
    names = [f"Query2Particle{letter}" for letter in "abcdefghijklmnopqrst"]
    drawn = draw_clusters("bars", ["one"], [Cluster(name, [1.0]) for name in names])
    root = ElementTree.fromstring(drawn)
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    assert [text.text for text in texts if "transform" in text.attrib] == names
    assert float(root.attrib["width"]) < 1000
    few = draw_clusters("bars", ["one"], [Cluster(name, [1.0]) for name in names[:5]])
    assert "transform" not in few
    assert names[4] in few


def test_a_chart_without_bars_is_valid() -> None:
    ElementTree.fromstring(draw_clusters("nothing", [], []))
