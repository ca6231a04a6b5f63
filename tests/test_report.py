"""Reports: one file that needs nothing else, safe whatever the data are called, opened and clicked in a browser."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tangentbundle as tb
from tangentbundle.io import Summary
from tangentbundle.report import write_report
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


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Reports of a filtered field on a torus, and of wind between stations."""
    place = tmp_path_factory.mktemp("reports")
    points = TORUS.sample(300, seed=0)
    vectors = TORUS.tangent_field(points) + 0.2 * np.random.default_rng(0).standard_normal(points.shape)
    table = pd.DataFrame(np.c_[points, vectors], columns=["x", "y", "z", "vx", "vy", "vz"])
    table.to_csv(place / "field.csv", index=False)
    wind = tb.datasets.load_wind()
    few = wind.at(wind.sample(40, rng=0))
    stations = {"lat": few.lat, "lon": few.lon, "u": few.components[0, :, 0], "v": few.components[0, :, 1]}
    pd.DataFrame(stations).to_csv(place / "stations.csv", index=False)
    lat, lon = np.meshgrid(np.arange(-60, 61, 30.0), np.arange(0, 360, 60.0))
    pd.DataFrame({"lat": lat.ravel(), "lon": lon.ravel()}).to_csv(place / "grid.csv", index=False)
    filtered = ("filter", place / "field.csv", "--heat", 0.01, "-o", place / "smooth.csv")
    run(*filtered, "--report", place / "filter.html")
    wanted = ("interpolate", place / "stations.csv", "--at", place / "grid.csv", "-o", place / "wind.csv", "--std")
    run(*wanted, "--report", place / "interpolate.html")
    return place


def specs(page: str) -> list[dict]:
    """The figures inside a report."""
    return [json.loads(text) for text in re.findall(r"<script type=application/json>(.*?)</script>", page, re.DOTALL)]


def test_a_report_says_what_was_read_found_and_typed(folder):
    page = (folder / "filter.html").read_text()
    for words in ("300 points in R^3", "guessed by name", "heat flow for a time of 0.01", "--heat 0.01", "smooth.csv"):
        assert words in page
    (field,) = specs(page)
    assert len(field["choices"]) == 3
    assert re.findall(r"<img class=chart alt=\"(.*?)\"", page) == ["Response of the filter", "Residuals"]


def test_a_report_needs_nothing_else(folder):
    for name in ("filter.html", "interpolate.html"):
        page = (folder / name).read_text()
        outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
        assert page.count("<script>") == 2 and outside.count("src=") == outside.count('src="data:image/svg+xml;base64,')
        assert "default-src 'none'" in page and len(page) < 8e6
        assert page.count("plotly.js v") == 1


def test_the_line_repeats_the_command(folder):
    page = (folder / "interpolate.html").read_text()
    line = re.search(r"<code id=line>(.*?)</code>", page).group(1)
    assert line.startswith("tangentbundle interpolate") and "--std" in line and "--at" in line and "--seed" not in line


def test_names_from_files_are_text(tmp_path):
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    points = TORUS.sample(60, seed=0)
    table = pd.DataFrame(np.c_[points, TORUS.tangent_field(points)], columns=["x", "y", "z", evil, "b&", "<i>c"])
    table.to_csv(tmp_path / "field.csv", index=False)
    arguments = ("filter", tmp_path / "field.csv", "--heat", 0.01, "--vectors", f"{evil},b&,<i>c")
    run(*arguments, "-o", tmp_path / "out.csv", "--report", tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text()
    assert "alert(1)" in page and evil not in page and "<img src=x" not in page and "<i>c" not in page
    for spec in specs(page):
        assert "<script" not in json.dumps(spec) and "<img" not in json.dumps(spec)


def test_large_clouds_are_thinned_and_it_is_said(tmp_path):
    points = SPHERE.sample(4000, seed=0)
    np.savez(tmp_path / "field.npz", points=points, vectors=SPHERE.gradient_field(points, 2))
    run("inspect", tmp_path / "field.npz", "-k", 0, "--neighbors", 12, "--report", tmp_path / "large.html")
    page = (tmp_path / "large.html").read_text()
    assert "3000 of 4000 points are shown" in page and len(page) < 7e6


def test_bad_reports_are_refused_before_any_work(folder):
    wrong = run("doctor", "--report", folder / "report.pdf", code=2)
    assert "an .html file, not report.pdf" in wrong.stderr
    wrong = run("inspect", folder / "field.csv", "--report", folder / "nowhere" / "a.html", code=2)
    assert "there is no folder" in wrong.stderr and not (folder / "nowhere").exists()


def test_a_report_is_whole_or_not_there(tmp_path, monkeypatch):
    path = tmp_path / "a.html"
    path.write_text("<!doctype html>old")
    monkeypatch.setattr(
        Path, "write_text", lambda *a, **k: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(tb.errors.OutputError, match="No space left"):
        write_report(Summary("doctor"), path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"] and path.read_bytes() == b"<!doctype html>old"


def test_every_command_has_a_report():
    for name in ("inspect", "denoise", "interpolate", "forecast", "filter", "spectrum", "doctor", "reproduce"):
        assert "--report" in run(name, "--help").stdout


# In a browser.


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    place = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
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
        return self.page.evaluate(f"document.querySelectorAll('.plot')[{number}].data.map(t => t.visible)")

    def picture(self, number=0):
        """The pixels of a figure."""
        return self.page.locator(".plot").nth(number).screenshot()

    def colors(self):
        """Of the page, and of a figure's letters."""
        letters = "document.querySelectorAll('.plot')[0]._fullLayout.font.color"
        return [self.page.evaluate(code) for code in ("getComputedStyle(document.body).backgroundColor", letters)]

    def close(self):
        assert self.faults == [] and [u for u in self.loaded if not u.startswith(("file:", "data:", "blob:"))] == []
        self.page.close()


def test_the_toggle_and_the_theme_change_what_is_drawn(browser, folder):
    visit = Visit(browser, folder / "filter.html")
    before, first = visit.visible(), visit.picture()
    buttons = visit.page.locator(".toggle button")
    assert buttons.all_inner_texts() == ["before", "after", "difference"]
    buttons.nth(1).click()
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"
    assert buttons.nth(0).get_attribute("aria-pressed") == "false"
    visit.page.wait_for_timeout(300)
    after, second = visit.visible(), visit.picture()
    assert before != after and first != second
    buttons.nth(0).click()
    assert visit.visible() == before
    light = visit.colors()
    visit.page.emulate_media(color_scheme="dark")
    visit.page.wait_for_timeout(300)
    assert all(one != other for one, other in zip(light, visit.colors(), strict=True))
    visit.close()


def test_the_mouse_reads_values_off_the_map(browser, folder):
    visit = Visit(browser, folder / "interpolate.html")
    buttons = visit.page.locator(".toggle").nth(0).locator("button")
    assert buttons.all_inner_texts() == ["observed", "predicted", "residual", "uncertainty"]
    buttons.nth(1).click()
    place = visit.page.evaluate("""() => {
        const plot = document.querySelectorAll('.plot')[0], l = plot._fullLayout, box = plot.getBoundingClientRect();
        const k = plot.data.findIndex((t) => t.visible && t.mode === 'markers'), t = plot._fullData[k];
        return [box.left + l.xaxis._offset + l.xaxis.l2p(t.x[7]), box.top + l.yaxis._offset + l.yaxis.l2p(t.y[7])];
    }""")
    visit.page.mouse.move(place[0] - 3, place[1])
    visit.page.mouse.move(*place)
    told = visit.page.locator(".hoverlayer .hovertext").first
    told.wait_for()
    words = told.text_content()
    assert all(name in words for name in ("lat", "lon", "u", "v", "standard deviation", "predicted"))
    visit.close()
