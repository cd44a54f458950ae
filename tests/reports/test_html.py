"""The report in a real browser: it says nothing on the console, and its numbers are those of `fadewise compare`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fadewise as fw
from fadewise.reports import html, runs
from fadewise.reports.comparison import COSTS, compared
from fadewise.reports.curves import Target
from fadewise.reports.runs import Arm
from tests.reports import browser, made

CURVES = {
    "handwriting/het-uniform": [[0.1, 0.3, 0.5, 0.6, 0.65, 0.68, 0.7], [0.1, 0.2, 0.4, 0.55, 0.6, 0.66, 0.7]],
    "handwriting/het": [[0.1, 0.4, 0.6, 0.66, 0.7, 0.7, 0.71], [0.2, 0.3, 0.5, 0.61, 0.65, 0.63, 0.64]],
}
AIRTIMES = {"handwriting/het-uniform": (1.0, 1.1), "handwriting/het": (0.4, 0.6)}


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> list[Arm]:
    folder = tmp_path_factory.mktemp("runs")
    for preset, curves in CURVES.items():
        for seed, curve in enumerate(curves):
            path = folder / preset / f"seed-{seed}"
            made.run(path, curve, airtime_s=AIRTIMES[preset][seed], seed=seed, preset=preset)
    other = made.run(folder / "other", CURVES["handwriting/het"][0], changes={"training.batch_size": 8})
    return runs.arms([folder / "handwriting" / "het-uniform", folder / "handwriting" / "het", other])


@pytest.fixture(scope="module")
def report(arms: list[Arm], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    html.write("Costs & <targets>", arms, path, note="Quick: not the paper's.")
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    if browser.CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with browser.browser() as page:
        yield page


def costs(page: browser.Browser) -> list[list[str]]:
    """The table's cells, row by row."""
    script = "[...document.querySelectorAll('#costs tbody tr')].map(r => [...r.cells].map(c => c.innerText.trim()))"
    rows: list[list[str]] = page.evaluate(script)
    return rows


def number(text: str) -> float:
    return float(text.removeprefix("> ").replace(",", ""))


def test_the_page_needs_nothing_from_elsewhere(report: Path, arms: list[Arm]) -> None:
    text = report.read_text()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)|url\(|@import|fetch\(""", text)
    assert "<title>Costs &amp; &lt;targets&gt;</title>" in text
    assert text == html.page("Costs & <targets>", arms, "Quick: not the paper's.")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*)</script>', text)
    assert json.loads(data)["arms"][0]["name"] == arms[0].name


@pytest.mark.parametrize("target", [0.3, 0.6, 0.655, 0.9])
def test_its_numbers_are_those_of_the_command(
    chromium: browser.Browser, report: Path, arms: list[Arm], target: float
) -> None:
    chromium.open(report)
    chromium.evaluate(f"""(() => {{
        const input = document.getElementById("target-number");
        input.value = {target};
        input.dispatchEvent(new Event("input"));
    }})()""")
    for over, _ in enumerate(arms):
        chromium.evaluate(f"""(() => {{
            const choice = document.getElementById("over");
            choice.value = {over};
            choice.dispatchEvent(new Event("change"));
        }})()""")
        for row, cells in zip(compared(arms, Target("accuracy", target), over).rows, costs(chromium), strict=True):
            assert cells[:2] == [row.arm.name, f"{row.reached} of {len(row.arm.runs)}"]
            for cost, cell in zip(COSTS, cells[2:5], strict=True):
                value, *ratio = cell.split("\n")
                assert number(value) == pytest.approx(row.costs[cost].cost, rel=1e-3)
                assert value.startswith("> ") == (not row.costs[cost].reached)
                assert ratio == ([f"× {row.ratios[cost]}".replace("× –", "×–")] if row.ratios else [])
    assert chromium.complaints == []


def test_the_axis_is_switched_and_configurations_are_hidden(chromium: browser.Browser, report: Path) -> None:
    chromium.open(report)
    assert axis_names(chromium) == ["airtime, s"] * 2
    for cost, name in [
        ("rounds", "rounds"),
        ("energy", "energy"),
        ("wall_s", "wall time, s"),
        ("airtime_s", "airtime, s"),
    ]:
        chromium.evaluate(f"""document.querySelector('#axis input[value="{cost}"]').click()""")
        assert axis_names(chromium) == [name] * 2
    assert chromium.evaluate("document.querySelectorAll('#axis input').length") == 4  # round time is airtime here
    assert chromium.evaluate("document.querySelectorAll('#accuracy .line').length") == 3
    chromium.evaluate("document.querySelector('#arms input').click()")
    assert chromium.evaluate("document.querySelectorAll('#accuracy .line').length") == 2
    assert len(costs(chromium)) == 2
    for _ in range(2):
        chromium.evaluate("document.querySelector('#arms input:checked').click()")
    assert "No configuration is chosen" in chromium.evaluate("document.getElementById('accuracy').textContent")
    assert chromium.complaints == []


def axis_names(page: browser.Browser) -> list[str]:
    names: list[str] = page.evaluate("""["accuracy", "loss"].map(id =>
        [...document.querySelectorAll(`#${id} text`)].map(t => t.textContent)
            .find(text => /^(airtime|rounds|energy|wall)/.test(text)))""")
    return names


def test_it_is_used_from_the_keyboard(chromium: browser.Browser, report: Path) -> None:
    chromium.open(report)
    visited: list[str] = []
    for _ in range(20):
        chromium.press("Tab")
        visited.append(
            chromium.evaluate(
                "document.activeElement.id || document.activeElement.name || document.activeElement.className"
            )
        )
    for place in (
        "skip",
        "theme",
        "axis",
        "arm",
        "accuracy",
        "loss",
        "target-range",
        "target-number",
        "over",
        "scroll",
        "power",
    ):
        assert place in visited, visited
    chromium.evaluate("document.getElementById('target-range').focus()")
    before = chromium.evaluate("+document.getElementById('target-number').value")
    chromium.press("ArrowRight", 5)
    assert chromium.evaluate("+document.getElementById('target-number').value") == pytest.approx(before + 0.005)
    chromium.evaluate("document.getElementById('accuracy').focus()")
    chromium.press("ArrowRight", 20)
    assert re.match(r"at [\d.]+:", chromium.evaluate("document.getElementById('accuracy-readout').innerText"))
    chromium.evaluate("document.querySelector('#axis input:checked').focus()")
    chromium.press("ArrowRight")
    assert axis_names(chromium) == ["rounds"] * 2
    assert chromium.complaints == []


def test_the_target_is_dragged(chromium: browser.Browser, report: Path) -> None:
    chromium.open(report)
    place: Any = chromium.evaluate("""(() => {
        const {x, y, width, height} = document.querySelector("#accuracy .grip").getBoundingClientRect();
        return {x: x + width / 2, y: y + height / 2};
    })()""")
    before = chromium.evaluate("+document.getElementById('target-number').value")
    chromium.drag(place["x"], place["y"], place["y"] + 60)
    after = chromium.evaluate("+document.getElementById('target-number').value")
    assert 0.05 < before - after < 0.3
    assert chromium.complaints == []


def test_many_configurations_are_told_apart_and_uniform_choice_is_grey(
    chromium: browser.Browser, tmp_path: Path
) -> None:
    for weight in range(1, 10):
        made.run(tmp_path / f"a{weight}", [0.1, 0.3, 0.5], changes={"policy.airtime_weight": float(weight)})
    for count in (2.0, 4.0, 8.0):
        preset, changes = "handwriting/het-uniform", {"policy.participants": count}
        made.run(tmp_path / f"b{count:g}", [0.1, 0.3, 0.5], preset=preset, changes=changes)
    html.write("Many", runs.arms([tmp_path]), tmp_path / "many.html")
    chromium.open(tmp_path / "many.html")
    looks = chromium.evaluate("""[...document.querySelectorAll("#accuracy .line")].map(line =>
        [line.getAttribute("stroke"), line.getAttribute("stroke-dasharray")])""")
    assert len({tuple(look) for look in looks}) == len(looks) == 12
    assert [color == "var(--c0)" for color, _ in looks] == [True] * 3 + [False] * 9
    bars = chromium.evaluate("""[...document.querySelector("#devices tbody td").querySelectorAll("i")].map(bar =>
        bar.style.background.startsWith("repeating-linear-gradient"))""")
    assert bars == [dash is not None for _, dash in looks]
    assert chromium.complaints == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_phones_and_desktops_in_light_and_dark(
    chromium: browser.Browser, report: Path, width: int, dark: bool
) -> None:
    chromium.open(report, width, dark=dark)
    assert chromium.evaluate("document.documentElement.scrollWidth") == width
    page = "getComputedStyle(document.body).backgroundColor"
    is_dark = sum(map(int, re.findall(r"\d+", chromium.evaluate(page))[:3])) < 200
    assert is_dark == dark
    chromium.evaluate(f"""document.querySelector('#theme input[value="{"light" if dark else "dark"}"]').click()""")
    assert (sum(map(int, re.findall(r"\d+", chromium.evaluate(page))[:3])) < 200) != dark
    assert chromium.complaints == []


def test_everything_has_a_name(chromium: browser.Browser, report: Path) -> None:
    """What a person can go to says what it is to those who do not see it."""
    chromium.open(report)
    nameless = chromium.evaluate("""[...document.querySelectorAll("input, select, [tabindex='0']")].filter(e =>
        !(e.labels?.length && e.labels[0].innerText.trim()) && !e.getAttribute("aria-label")).map(e => e.outerHTML)""")
    assert nameless == []
    assert chromium.evaluate("document.querySelectorAll('fieldset:not(:has(> legend))').length") == 0


def test_a_report_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fw.FadewiseError, match=r"must be a name ending in \.html"):
        html.check_writable(tmp_path / "report.pdf")
    with pytest.raises(fw.FadewiseError, match="nowhere is not a folder"):
        html.check_writable(tmp_path / "nowhere" / "report.html")
