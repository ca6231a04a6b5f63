"""Reports: one file that needs nothing else, safe whatever the data are called, opened and clicked
in a browser."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from tool import run

import tangentbundle as tb
from tangentbundle.io import Field
from tangentbundle.report import write_report
from tangentbundle.results import Chart, Eigenfields, Result
from tangentbundle.spaces import Cloud, Globe
from tangentbundle_cli import app

pytest.importorskip("plotly")

TORUS, SPHERE = tb.manifolds.Torus(), tb.manifolds.Sphere(2)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--enable-unsafe-swiftshader",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Reports of a filtered field on a torus, and of wind between stations."""
    place = tmp_path_factory.mktemp("reports")
    points = TORUS.sample(300, seed=0)
    vectors = TORUS.tangent_field(points) + 0.2 * np.random.default_rng(0).standard_normal(
        points.shape
    )
    table = pd.DataFrame(np.c_[points, vectors], columns=["x", "y", "z", "vx", "vy", "vz"])
    table.to_csv(place / "field.csv", index=False)
    wind = tb.datasets.load_wind()
    few = wind.at(wind.sample(40, rng=0))
    stations = {
        "lat": few.lat,
        "lon": few.lon,
        "u": few.components[0, :, 0],
        "v": few.components[0, :, 1],
    }
    pd.DataFrame(stations).to_csv(place / "stations.csv", index=False)
    lat, lon = np.meshgrid(np.arange(-60, 61, 30.0), np.arange(0, 360, 60.0))
    pd.DataFrame({"lat": lat.ravel(), "lon": lon.ravel()}).to_csv(place / "grid.csv", index=False)
    filtered = ("filter", place / "field.csv", "--heat", 0.01, "-o", place / "smooth.csv")
    run(*filtered, "--report", place / "filter.html")
    wanted = (
        "interpolate",
        place / "stations.csv",
        "--at",
        place / "grid.csv",
        "-o",
        place / "wind.csv",
        "--std",
    )
    run(*wanted, "--report", place / "interpolate.html")
    write_report(forecast_of(wind), place / "forecast.html")
    return place


def forecast_of(wind):
    """A made-up forecast of ten months of wind over Europe, with its skill."""
    near = wind.at(
        np.flatnonzero((wind.lat > 30) & (wind.lat < 70) & ((wind.lon < 40) | (wind.lon > 340)))
    )
    space = Globe(near.lat, near.lon)
    dates = np.datetime64("1982-01") + np.arange(30)
    before, after = (
        Field(space, near.components[rows], ("u", "v"), times=dates[rows], units="m s-1")
        for rows in (slice(0, 20), slice(20, 30))
    )
    skill = [
        {"lead": k, "error": 2.0 - 1.0 / k, "persistence": 2.5, "climatology": 2.0}
        for k in (1, 2, 3)
    ]
    chart = Chart(
        "Skill", "Errors.", lambda axes: tb.plot.curves.skill(skill, before.units, axes=axes)
    )
    return Result("forecast", before=before, future=after, charts=[chart])


def specs(page: str) -> list[dict]:
    """The figures inside a report."""
    return [
        json.loads(text)
        for text in re.findall(r"<script type=application/json>(.*?)</script>", page, re.DOTALL)
    ]


def test_a_report_says_what_was_read_found_and_typed(folder):
    page = (folder / "filter.html").read_text()
    for words in (
        "300 points in R^3",
        "guessed by name",
        "Heat(t=0.01)",
        "--heat 0.01",
        "smooth.csv",
    ):
        assert words in page
    before, after = specs(page)
    assert [choice["label"] for choice in before["layout"]["meta"]["choices"]] == ["before"]
    assert [choice["label"] for choice in after["layout"]["meta"]["choices"]] == [
        "after",
        "streamlines",
        "difference",
    ]


def test_a_report_needs_nothing_else(folder):
    for name in ("filter.html", "interpolate.html"):
        page = (folder / name).read_text()
        outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
        assert page.count("<script>") == 2 and outside.count("src=") == outside.count(
            'src="data:image/svg+xml;base64,'
        )
        assert "default-src 'none'" in page and len(page) < 8e6
        assert page.count("plotly.js v") == 1


def test_the_line_repeats_the_command(folder):
    page = (folder / "interpolate.html").read_text()
    line = re.search(r"<code id=line>(.*?)</code>", page).group(1)
    assert (
        line.startswith("tangentbundle interpolate")
        and "--std" in line
        and "--at" in line
        and "--seed" not in line
    )


def test_names_from_files_are_text(tmp_path):
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    points = TORUS.sample(60, seed=0)
    table = pd.DataFrame(
        np.c_[points, TORUS.tangent_field(points)], columns=["x", "y", "z", evil, "b&", "<i>c"]
    )
    table.to_csv(tmp_path / "field.csv", index=False)
    arguments = ("filter", tmp_path / "field.csv", "--heat", 0.01, "--vectors", f"{evil},b&,<i>c")
    run(*arguments, "-o", tmp_path / "out.csv", "--report", tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text()
    assert (
        "alert(1)" in page and evil not in page and "<img src=x" not in page and "<i>c" not in page
    )
    for spec in specs(page):
        assert "<script" not in json.dumps(spec) and "<img" not in json.dumps(spec)


def test_large_clouds_are_thinned_and_it_is_said(tmp_path):
    points = SPHERE.sample(4000, seed=0)
    np.savez(tmp_path / "field.npz", points=points, vectors=SPHERE.gradient_field(points, 2))
    run(
        "inspect",
        tmp_path / "field.npz",
        "-k",
        0,
        "--neighbors",
        12,
        "--report",
        tmp_path / "large.html",
    )
    page = (tmp_path / "large.html").read_text()
    assert "2000 of 4000 points are shown" in page and len(page) < 7e6


def test_notes_count_what_is_shown_and_points_without_vectors_have_no_arrows(tmp_path):
    space, modes, values = (
        Cloud(SPHERE.sample(600, seed=0), ("x", "y", "z")),
        np.ones((3, 600, 3)),
        np.arange(5.0),
    )
    write_report(Result("inspect", before=Field(space)), tmp_path / "points.html")
    page = (tmp_path / "points.html").read_text()
    assert ">points</p>" in page and "<h2>Points</h2>" in page and "have arrows" not in page
    write_report(
        Result("spectrum", before=Field(space), eigenfields=Eigenfields(values, modes)),
        tmp_path / "modes.html",
    )
    page = (tmp_path / "modes.html").read_text()
    assert (
        "The first 3 of 5 eigenfields are shown." in page
        and "400 of 600 points have arrows." in page
    )


def test_bad_reports_are_refused_before_any_work(folder):
    wrong = run("doctor", "--report", folder / "report.pdf", code=2)
    assert "expected an .html file for the report, got report.pdf" in wrong.stderr
    wrong = run("inspect", folder / "field.csv", "--report", folder / "nowhere" / "a.html", code=2)
    assert "no such folder" in wrong.stderr and not (folder / "nowhere").exists()


def test_a_report_is_whole_or_not_there(tmp_path, monkeypatch):
    path = tmp_path / "a.html"
    path.write_text("<!doctype html>old")
    monkeypatch.setattr(
        Path,
        "write_text",
        lambda *a, **k: (_ for _ in ()).throw(OSError(28, "No space left on device")),
    )
    with pytest.raises(tb.errors.OutputError, match="No space left"):
        write_report(Result("doctor"), path)
    assert [p.name for p in tmp_path.iterdir()] == [
        "a.html"
    ] and path.read_bytes() == b"<!doctype html>old"


def test_every_command_has_a_report():
    for name in (command.name for command in typer.main.get_command(app).commands.values()):
        assert "--report" in run(name, "--help").stdout


# In a browser.


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    place = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if place is None:
        pytest.skip("no browser: install chromium to open reports")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=place, args=list(FLAGS))
        yield opened
        opened.close()


class Visit:
    """A report in a browser, with all that it loaded and complained about."""

    def __init__(self, browser, path: Path):
        self.page = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme="light")
        self.page.set_default_timeout(120_000)  # busy machines
        self.faults, self.loaded = [], []
        self.page.on("console", lambda m: self.faults.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.faults.append(str(e)))
        self.page.on("request", lambda r: self.loaded.append(r.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_function("document.querySelectorAll('.plot .main-svg').length > 0")

    def visible(self, number=0):
        """Which traces of a figure are drawn."""
        return self.page.evaluate(
            f"document.querySelectorAll('.plot')[{number}].data.map(t => t.visible)"
        )

    def picture(self, number=0):
        """The pixels of a figure."""
        return self.page.locator(".plot").nth(number).screenshot()

    def figures(self, code):
        """The value of some code for every figure ``p``."""
        return self.page.evaluate(f"Array.from(document.querySelectorAll('.plot'), (p) => {code})")

    def boxes(self):
        """Where both figures are on the page."""
        return [self.page.locator(".plot").nth(k).bounding_box() for k in (0, 1)]

    def paper(self, place):
        """Background of a part of the page."""
        return self.page.evaluate(
            f"getComputedStyle(document.querySelector('{place}')).backgroundColor"
        )

    def close(self):
        assert (
            self.faults == []
            and [u for u in self.loaded if not u.startswith(("file:", "data:", "blob:"))] == []
        )
        self.page.close()


def test_the_toggle_and_the_theme_change_what_is_drawn(browser, folder):
    visit = Visit(browser, folder / "filter.html")
    first, drawn = visit.visible(1), visit.picture(1)
    buttons = visit.page.locator(".toggle button")
    assert visit.page.locator("p.layer").inner_text() == "before"
    assert buttons.all_inner_texts() == ["after", "streamlines", "difference"]
    buttons.nth(1).click()
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"
    assert buttons.nth(0).get_attribute("aria-pressed") == "false"
    visit.page.wait_for_timeout(300)
    assert visit.visible(1) != first and visit.picture(1) != drawn
    buttons.nth(0).click()
    assert visit.visible(1) == first
    light = visit.paper("body")
    visit.page.emulate_media(color_scheme="dark")
    visit.page.wait_for_timeout(300)
    assert (
        visit.paper("body") != light and visit.paper(".plot") == "rgb(255, 255, 255)"
    )  # colours are made for white
    assert visit.figures("[p._fullLayout.paper_bgcolor, p._fullLayout.font.color]") == 2 * [
        ["#fff", "#1c2530"]
    ]
    visit.close()


def test_the_mouse_reads_values_off_the_map(browser, folder):
    visit = Visit(browser, folder / "interpolate.html")
    assert visit.page.locator(".toggle button").all_inner_texts() == [
        *("predicted", "streamlines", "uncertainty"),
    ]
    place = visit.page.evaluate("""() => {
        const plot = document.querySelectorAll('.plot')[1], l = plot._fullLayout;
        const box = plot.getBoundingClientRect();
        const k = plot.data.findIndex((t) => t.visible && t.mode === 'markers');
        const t = plot._fullData[k];
        return [box.left + l.xaxis._offset + l.xaxis.l2p(t.x[7]),
                box.top + l.yaxis._offset + l.yaxis.l2p(t.y[7])];
    }""")
    visit.page.mouse.move(place[0] - 3, place[1])
    visit.page.mouse.move(*place)
    told = visit.page.locator(".hoverlayer .hovertext").first
    told.wait_for()
    words = told.text_content()
    assert all(
        name in words for name in ("lat", "lon", "u", "v", "standard deviation", "predicted")
    )
    visit.close()


def test_maps_have_coastlines_degrees_units_and_linked_views_side_by_side(browser, folder):
    visit = Visit(browser, folder / "interpolate.html")
    traces, letters = visit.figures("p.data.map((t) => t.name)"), visit.figures("p.textContent")
    for names, words in zip(traces, letters, strict=True):
        assert {"coastlines", "graticule", "degrees", "reference"} <= set(names)
        assert "60°N" in words and "wind speed (" in words
    left, right = visit.boxes()
    assert left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]
    assert visit.page.locator(".modebar:visible").count() == 0
    visit.page.evaluate(
        "Plotly.relayout(document.querySelectorAll('.plot')[0], {'xaxis.range': [-1, 0.5]})"
    )
    visit.page.wait_for_function(
        "document.querySelectorAll('.plot')[1].layout.xaxis.range[1] === 0.5"
    )
    visit.page.set_viewport_size({"width": 500, "height": 900})
    visit.page.wait_for_timeout(300)
    above, below = visit.boxes()
    assert above["y"] + above["height"] <= below["y"] and above["width"] > 400
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 500
    heads = visit.page.locator("thead th").all()
    assert (
        max(head.bounding_box()["height"] for head in heads) < 80
    )  # words are not cut into letters
    visit.close()


def test_every_step_of_a_forecast_has_its_date_and_there_is_a_skill_curve(browser, folder):
    visit = Visit(browser, folder / "forecast.html")
    assert visit.page.locator("p.layer").inner_text() == "last observed, 1983-08-01 00:00"
    dates, slider = visit.page.locator("output"), visit.page.locator("input[type=range]")
    assert (
        dates.inner_text() == "1983-09-01 00:00 (step 1 of 10)"
        and slider.get_attribute("max") == "9"
    )
    first = visit.visible(1)
    slider.focus()
    visit.page.keyboard.press("End")
    assert dates.inner_text() == "1984-06-01 00:00 (step 10 of 10)" and visit.visible(1) != first
    assert "wind speed, m/s (" in visit.figures("p.textContent")[0]
    assert "Skill" in visit.page.locator("h2").all_inner_texts()
    visit.close()


def test_surfaces_are_shaded_and_turn_together(browser, folder):
    points = TORUS.sample(500, seed=0)
    field = Field(Cloud(points, ("x", "y", "z")), TORUS.tangent_field(points)[None])
    write_report(
        Result("filter", before=field, after=replace(field, values=0.5 * field.values)),
        folder / "torus.html",
    )
    visit = Visit(browser, folder / "torus.html")
    assert all("mesh3d" in kinds for kinds in visit.figures("p.data.map((t) => t.type)"))
    eye = {"x": 0.1, "y": 2, "z": 0.3}
    visit.page.evaluate(
        """(eye) => {
            const plot = document.querySelectorAll('.plot')[1];
            for (const x of [3, 2, 1, eye.x])  // a drag: events follow each other quickly
                plot.emit('plotly_relayouting', {'scene.camera.eye': {...eye, x}}); }""",
        eye,
    )
    visit.page.wait_for_function(
        "document.querySelectorAll('.plot')[0].layout.scene.camera.eye.x === 0.1"
    )
    visit.close()
