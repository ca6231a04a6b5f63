"""Small tables of wind as offices write them, each with the field that it holds.

`corpus(folder)` writes 63 files: languages, encodings, separators, units, spreadsheets, tables of
several times. `python tests/office_tables.py FOLDER` writes them and prints which are read right at
once, without any option.
"""

from __future__ import annotations

import gzip
import io
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

STATIONS = ("Köln", "München", "Nürnberg", "Saarbrücken", "Görlitz", "Lübeck", "Düsseldorf")
STATIONS += ("Würzburg", "Osnabrück", "Tübingen", "Fürth", "Gießen")
N = len(STATIONS)
TIMES = 4
START = datetime(2026, 1, 15)
STEP = timedelta(hours=6)

XLS = Path(__file__).parent / "data" / "stations.xls"
"""The one spreadsheet that no library in use can write, as `office_tables.rows()` has it."""

COMPASS = ("N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE")
COMPASS += ("S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW")

Row = Sequence[object]


@dataclass(frozen=True)
class Truth:
    """What a reader must find: coordinates ``(n, 2)``, vectors ``(T, n, 2)`` in m/s (NaN where
    there is no measurement), and the rounding of the file's speeds."""

    coordinates: np.ndarray
    vectors: np.ndarray
    tolerance: float = 0.05


@dataclass(frozen=True)
class Case:
    """A file of the corpus."""

    path: Path
    truth: Truth


@dataclass
class Corpus:
    """The files written so far."""

    folder: Path
    cases: list[Case] = field(default_factory=list)

    def add(self, name: str, content: bytes, truth: Truth) -> None:
        """Write a file."""
        path = self.folder / name
        path.write_bytes(content)
        self.cases.append(Case(path, truth))


class Weather:
    """Stations and their winds, rounded as the files have them."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.lat = np.round(47.5 + 7 * rng.random(N), 3)
        self.lon = np.round(6.5 + 8 * rng.random(N), 3)
        self.height = np.round(50 + 2900 * rng.random(N), 1)
        self.east_m = np.round(300_000 + 400_000 * rng.random(N), 2)
        self.north_m = np.round(5_300_000 + 600_000 * rng.random(N), 2)
        self.u = np.round(rng.normal(4, 3, (TIMES, N)), 2)
        self.v = np.round(rng.normal(1, 3, (TIMES, N)), 2)
        self.temperature = np.round(rng.normal(3, 4, (TIMES, N)), 1)
        self.speed = np.round(np.hypot(self.u, self.v), 2)
        self.direction = np.round(np.degrees(np.arctan2(-self.u, -self.v)) % 360, 1)
        self.sector = np.round(self.direction / 22.5).astype(int) % 16

    @property
    def places(self) -> np.ndarray:
        return np.stack([self.lat, self.lon], axis=1)

    @property
    def in_plane(self) -> np.ndarray:
        return np.stack([self.east_m, self.north_m], axis=1)

    def components(self, times: int = 1) -> np.ndarray:
        return np.stack([self.u, self.v], axis=-1)[:times]

    def from_sectors(self) -> np.ndarray:
        angle = np.radians(22.5 * self.sector[:1])
        speed = self.speed[:1]
        return np.stack([-speed * np.sin(angle), -speed * np.cos(angle)], axis=-1)


W = Weather()
TRUTH = Truth(W.places, W.components())
SECTORS = Truth(W.places, W.from_sectors())


def rows(speed_factor: float = 1.0, digits: int = 2) -> list[list[object]]:
    """Station, latitude, longitude, height, speed, direction at the first time."""
    speeds = np.round(speed_factor * W.speed[0], digits)
    columns = [STATIONS, W.lat, W.lon, W.height, speeds, W.direction[0]]
    return [list(row) for row in zip(*columns, strict=True)]


def component_rows() -> list[list[object]]:
    """Station, latitude, longitude, u, v at the first time."""
    columns = [STATIONS, W.lat, W.lon, W.u[0], W.v[0]]
    return [list(row) for row in zip(*columns, strict=True)]


def text(
    header: Iterable[str],
    body: Iterable[Row],
    separator: str = ",",
    number: Callable[[float], str] = lambda value: (
        f"{value:g}" if abs(value) < 1e5 else f"{value:.2f}"
    ),
    end: str = "\n",
) -> str:
    """A table as text."""
    lines = [separator.join(header)] if header else []
    for row in body:
        cells = [cell if isinstance(cell, str) else number(float(cell)) for cell in row]
        lines.append(separator.join(cells))
    return end.join(lines) + end


def comma(value: float) -> str:
    """1234.5 as 1234,5."""
    return f"{value:.10g}".replace(".", ",")


def grouped(thousands: str, decimal: str) -> Callable[[float], str]:
    """1234.5 as 1.234,5, or with other signs."""

    def number(value: float) -> str:
        return f"{value:,.2f}".replace(",", "T").replace(".", decimal).replace("T", thousands)

    return number


GERMAN = ["Station", "Breite", "Länge", "Höhe", "Windgeschwindigkeit", "Windrichtung"]
ENGLISH = ["station", "lat", "lon", "height", "wind_speed", "wind_direction"]
PLAIN = ["station", "lat", "lon", "u", "v"]


def corpus(folder: Path) -> list[Case]:
    """Write all files to a folder."""
    files = Corpus(folder)
    _add_encodings(files)
    _add_separators(files)
    _add_structures(files)
    _add_languages(files)
    _add_units(files)
    _add_archives(files)
    _add_spreadsheets(files)
    _add_long_tables(files)
    return files.cases


def _add_encodings(files: Corpus) -> None:
    english = text(PLAIN, component_rows())
    german = text(GERMAN, rows(), ";", comma)
    files.add("plain.csv", english.encode(), TRUTH)
    files.add("utf8_bom.csv", b"\xef\xbb\xbf" + english.encode(), TRUTH)
    files.add("utf16_tabs.txt", text(PLAIN, component_rows(), "\t").encode("utf-16"), TRUTH)
    files.add("utf16_big_endian.csv", b"\xfe\xff" + english.encode("utf-16-be"), TRUTH)
    files.add("latin1_names_of_stations.csv", english.encode("latin-1"), TRUTH)
    files.add("latin1_german.csv", german.encode("latin-1"), TRUTH)
    with_dash = german.replace("Köln", "Köln – Flughafen")
    files.add("windows_1252_german.csv", with_dash.encode("cp1252"), TRUTH)
    french = ["Station", "Latitude", "Longitude", "Altitude", "Vitesse du vent (m/s)"]
    french.append("Direction du vent (°)")
    files.add("latin1_french.csv", text(french, rows(), ";", comma).encode("latin-1"), TRUTH)
    chinese = ["站名", "纬度", "经度", "海拔", "风速", "风向"]
    files.add(
        "gb18030_chinese.csv",
        text(chinese, rows()).replace("Köln", "科隆").encode("gb18030"),
        TRUTH,
    )
    japanese = ["観測所", "緯度", "経度", "標高", "風速", "風向"]
    table = text(japanese, [["観測所", *row[1:]] for row in rows()])
    files.add("shift_jis_japanese.csv", table.encode("cp932"), TRUTH)


def _add_separators(files: Corpus) -> None:
    files.add("semicolons.csv", text(PLAIN, component_rows(), ";").encode(), TRUTH)
    files.add("tabs.txt", text(PLAIN, component_rows(), "\t").encode(), TRUTH)
    files.add("bars.txt", text(PLAIN, component_rows(), "|").encode(), TRUTH)
    lines = [f"{'station':<14}{'lat':>9}{'lon':>9}{'u':>8}{'v':>8}"]
    for name, lat, lon, u, v in component_rows():
        lines.append(f"{name:<14}{lat:9.3f}{lon:9.3f}{u:8.2f}{v:8.2f}")
    files.add("aligned_columns.txt", ("\n".join(lines) + "\n").encode(), TRUTH)
    files.add("decimal_commas.csv", text(PLAIN, component_rows(), ";", comma).encode(), TRUTH)
    files.add("decimal_commas_tabs.txt", text(PLAIN, component_rows(), "\t", comma).encode(), TRUTH)
    quoted = text(PLAIN, component_rows(), number=lambda value: f'"{comma(value)}"')
    files.add("decimal_commas_quoted.csv", quoted.encode(), TRUTH)
    in_plane = Truth(W.in_plane, W.components())
    columns = [STATIONS, W.east_m, W.north_m, W.u[0], W.v[0]]
    body = [list(row) for row in zip(*columns, strict=True)]
    names = ["Station", "Easting", "Northing", "u", "v"]
    english = text(names, body, number=lambda value: f'"{grouped(",", ".")(value)}"')
    files.add("thousands_english.csv", english.encode(), in_plane)
    german = ["Station", "Rechtswert", "Hochwert", "u", "v"]
    files.add("thousands_german.csv", text(german, body, ";", grouped(".", ",")).encode(), in_plane)
    swiss = text(names, body, ";", grouped("'", "."))
    files.add("thousands_swiss.csv", swiss.encode(), in_plane)
    french = text(["Station", "Est", "Nord", "u", "v"], body, ";", grouped("\u202f", ","))
    files.add("thousands_french.csv", french.encode(), in_plane)


def _add_structures(files: Corpus) -> None:
    table = text(PLAIN, component_rows())
    files.add("comments_above.csv", f"# Station report\n# u, v in m/s\n{table}".encode(), TRUTH)
    files.add("comments_percent.csv", f"% written by a logger\n%\n{table}".encode(), TRUTH)
    lines = table.splitlines()
    between = "\n".join([*lines[:5], "# logger restarted", *lines[5:]]) + "\n"
    files.add("comments_between.csv", between.encode(), TRUTH)
    files.add("commented_names.csv", f"# {table}".encode(), TRUTH)
    title = f"Wind measurements Germany\nproduced 15 Jan 2026 06:00\n\n{table}"
    files.add("title_lines.csv", title.encode(), TRUTH)
    files.add("blank_lines.csv", table.replace("\n", "\n\n").encode(), TRUTH)
    units = [lines[0], ",deg,deg,m/s,m/s", *lines[1:]]
    files.add("units_row.csv", ("\n".join(units) + "\n").encode(), TRUTH)
    german = text(GERMAN, rows(3.6, 1), ";", comma).splitlines()
    german.insert(1, ";°;°;m;km/h;°")
    files.add("units_row_german.csv", ("\n".join(german) + "\n").encode(), TRUTH)
    quoted = "\n".join('"' + line.replace(",", '","') + '"' for line in lines) + "\n"
    files.add("all_quoted.csv", quoted.encode(), TRUTH)
    files.add("trailing_separators.csv", table.replace("\n", ",\n").encode(), TRUTH)
    files.add("empty_rows_at_the_end.csv", (table + ",,,,\n" * 3).encode(), TRUTH)
    files.add("sep_line_of_excel.csv", f"sep=;\n{table.replace(',', ';')}".encode(), TRUTH)


def _add_languages(files: Corpus) -> None:
    names = {
        "german": (
            "Stationsname",
            "Geogr. Breite",
            "Geogr. Länge",
            "Stationshöhe",
            "Windgeschwindigkeit",
            "Windrichtung",
        ),
        "spanish": (
            "Estación",
            "Latitud",
            "Longitud",
            "Altura",
            "Velocidad del viento",
            "Dirección del viento",
        ),
        "portuguese": (
            "Estação",
            "Latitude",
            "Longitude",
            "Altitude",
            "Velocidade do vento",
            "Direção do vento",
        ),
        "italian": (
            "Stazione",
            "Latitudine",
            "Longitudine",
            "Quota",
            "Velocità del vento",
            "Direzione del vento",
        ),
        "chinese": ("站名", "纬度", "经度", "海拔高度", "风速", "风向"),
        "japanese": ("地点", "緯度", "経度", "標高", "風速", "風向"),
    }
    for language, header in names.items():
        files.add(f"language_{language}.csv", text(header, rows()).encode(), TRUTH)
    components = {
        "german": ("Station", "Breite", "Länge", "Ostkomponente", "Nordkomponente"),
        "french": ("Station", "Latitude", "Longitude", "Composante est", "Composante nord"),
    }
    for language, header in components.items():
        name = f"components_{language}.csv"
        files.add(name, text(header, component_rows()).encode(), TRUTH)


def _add_units(files: Corpus) -> None:
    kmh = rows(3.6, 1)
    knots = rows(1 / 0.514444, 1)
    wide = ["station", "lat", "lon", "elevation", "wind_speed_kmh", "wind_dir_deg"]
    files.add("units_as_suffix.csv", text(wide, kmh).encode(), TRUTH)
    model = ["station", "latitude", "longitude", "elevation", "wind_speed_10m (km/h)"]
    model.append("wind_direction_10m (°)")
    files.add("weather_model.csv", text(model, kmh).encode(), TRUTH)
    metar = ["station", "lat", "lon", "elevation", "sknt", "drct"]
    files.add("airports.csv", text(metar, knots).encode(), TRUTH)
    capitals = ["Station", "Latitude (deg)", "Longitude (deg)", "Elevation (m)"]
    capitals += ["Wind Speed (kt)", "Wind Direction (deg)"]
    files.add("units_in_brackets.csv", text(capitals, knots).encode(), TRUTH)
    suffixes = ["station", "lat_deg", "lon_deg", "u_ms", "v_ms"]
    files.add("components_with_suffixes.csv", text(suffixes, component_rows()).encode(), TRUTH)
    columns = [STATIONS, W.east_m, W.north_m, W.u[0], W.v[0]]
    body = list(zip(*columns, strict=True))
    plane = text(["id", "x_m", "y_m", "vx_ms", "vy_ms"], body)
    files.add("plane_with_suffixes.csv", plane.encode(), Truth(W.in_plane, W.components()))
    _add_compass(files)


def _add_compass(files: Corpus) -> None:
    languages = {
        "english": ("E", ENGLISH),
        "german": ("O", GERMAN),
        "french": ("E", ["Station", "Latitude", "Longitude", "Altitude", "Vitesse", "Direction"]),
    }
    for language, (east, header) in languages.items():
        body = rows()
        for row, sector in zip(body, W.sector[0], strict=True):
            word = COMPASS[sector].replace("E", east)
            if language == "french":
                word = word.replace("W", "O")
            row[5] = word
        files.add(f"compass_{language}.csv", text(header, body).encode(), SECTORS)


def _add_archives(files: Corpus) -> None:
    table = text(GERMAN, rows(), ";", comma).encode("cp1252")
    files.add("compressed.csv.gz", gzip.compress(table), TRUTH)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("stations.csv", table)
    files.add("compressed.zip", content.getvalue(), TRUTH)


def _add_spreadsheets(files: Corpus) -> None:
    sheet = [GERMAN, *rows()]
    files.add("sheet.xlsx", xlsx({"Tabelle1": sheet}), TRUTH)
    readme = [["Stationsliste"], ["Stand: Januar 2026"]]
    files.add("two_sheets.xlsx", xlsx({"Info": readme, "Wind": sheet}), TRUTH)
    units = ["", "°", "°", "m", "km/h", "°"]
    titled = [["Windmessungen"], [], GERMAN, units, *rows(3.6, 1)]
    files.add("title_and_units.xlsx", xlsx({"Daten": titled}), TRUTH)
    files.add("sheet.ods", ods({"Tabelle1": sheet}), TRUTH)
    files.add("sheet.xls", XLS.read_bytes(), TRUTH)


def _add_long_tables(files: Corpus) -> None:
    whole = Truth(W.places, W.components(TIMES))
    missing = {(1, 3), (2, 0), (2, 7)}
    gaps = W.components(TIMES).copy()
    for time, station in missing:
        gaps[time, station] = np.nan
    with_gaps = Truth(W.places, gaps)
    cells = [(time, station) for time in range(TIMES) for station in range(N)]

    def body(when: Callable[[datetime], list[object]], left_out: set = frozenset()) -> list[Row]:
        table = []
        for time, station in cells:
            if (time, station) in left_out:
                continue
            values = [W.lat[station], W.lon[station], W.u[time, station], W.v[time, station]]
            values.append(W.temperature[time, station])
            table.append([*when(START + time * STEP), STATIONS[station], *values])
        return table

    names = ["station", "lat", "lon", "u", "v", "temperature"]
    iso = text(["time", *names], body(lambda when: [when.isoformat()]))
    files.add("long_iso.csv", iso.encode(), whole)
    german = [
        "Datum",
        "Station",
        "Breite",
        "Länge",
        "Ostwind [m/s]",
        "Nordwind [m/s]",
        "Temperatur",
    ]
    table = text(german, body(lambda when: [f"{when:%d.%m.%Y %H:%M}"], missing), ";", comma)
    files.add("long_german_with_gaps.csv", table.encode("latin-1"), with_gaps)
    two = text(["Date", "Time", *names], body(lambda when: [f"{when:%Y-%m-%d}", f"{when:%H:%M}"]))
    files.add("long_date_and_time.csv", two.encode(), whole)
    calendar = body(lambda when: [f"{when.year}", f"{when.month}", f"{when.day}", f"{when.hour}"])
    files.add(
        "long_calendar.csv",
        text(["year", "month", "day", "hour", *names], calendar).encode(),
        whole,
    )
    sheet = [["time", *names], *body(lambda when: [when])]
    files.add("long_sheet.xlsx", xlsx({"wind": sheet}), whole)
    compact = text(["MESS_DATUM", *names], body(lambda when: [f"{when:%Y%m%d%H}"], missing), ";")
    files.add("long_compact_dates_with_gaps.txt", compact.encode(), with_gaps)


# Spreadsheets, as small as they can be.


def xlsx(sheets: dict[str, list[Row]]) -> bytes:
    """A workbook of Excel."""
    kinds = "http://schemas.openxmlformats.org"
    entries = "".join(
        f'<sheet name="{name}" sheetId="{k}" r:id="rId{k}"/>' for k, name in enumerate(sheets, 1)
    )
    links = "".join(
        f'<Relationship Id="rId{k}" Type="{kinds}/officeDocument/2006/relationships/worksheet" '
        f'Target="worksheets/sheet{k}.xml"/>'
        for k in range(1, len(sheets) + 1)
    )
    links += (
        f'<Relationship Id="rId99" Type="{kinds}/officeDocument/2006/relationships/styles" '
        'Target="styles.xml"/>'
    )
    overrides = "".join(
        f'<Override PartName="/xl/worksheets/sheet{k}.xml" ContentType="application/vnd.'
        'openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
        for k in range(1, len(sheets) + 1)
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{kinds}/package/2006/content-types"><Default '
        'Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook'
        '.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main'
        f'+xml"/>{overrides}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{kinds}/package/2006/relationships"><Relationship '
        f'Id="rId1" Type="{kinds}/officeDocument/2006/relationships/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{kinds}/spreadsheetml/2006/main" '
        f'xmlns:r="{kinds}/officeDocument/2006/relationships"><sheets>{entries}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{kinds}/package/2006/relationships">'
        f"{links}</Relationships>",
        "xl/styles.xml": f'<styleSheet xmlns="{kinds}/spreadsheetml/2006/main"><cellXfs count="2">'
        '<xf numFmtId="0"/><xf numFmtId="22"/></cellXfs></styleSheet>',
    }
    for k, table in enumerate(sheets.values(), 1):
        lines = []
        for number, row in enumerate(table, 1):
            cells = "".join(
                _xlsx_cell(value, f"{chr(65 + column)}{number}") for column, value in enumerate(row)
            )
            lines.append(f'<row r="{number}">{cells}</row>')
        parts[f"xl/worksheets/sheet{k}.xml"] = (
            f'<worksheet xmlns="{kinds}/spreadsheetml/2006/main"><sheetData>{"".join(lines)}'
            "</sheetData></worksheet>"
        )
    return _zipped(parts)


def _xlsx_cell(value: object, place: str) -> str:
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>' if value else ""
    if isinstance(value, datetime):
        days = (value - datetime(1899, 12, 30)) / timedelta(days=1)
        return f'<c r="{place}" s="1"><v>{days!r}</v></c>'
    return f'<c r="{place}"><v>{float(value)!r}</v></c>'


def ods(sheets: dict[str, list[Row]]) -> bytes:
    """A workbook of LibreOffice."""
    names = "urn:oasis:names:tc:opendocument:xmlns"
    tables = ""
    for title, table in sheets.items():
        lines = ""
        for row in table:
            cells = ""
            for value in row:
                if isinstance(value, str):
                    cells += (
                        '<table:table-cell office:value-type="string"><text:p>'
                        f"{escape(value)}</text:p></table:table-cell>"
                    )
                else:
                    cells += (
                        f'<table:table-cell office:value-type="float" office:value="{value}">'
                        f"<text:p>{value}</text:p></table:table-cell>"
                    )
            lines += f"<table:table-row>{cells}</table:table-row>"
        tables += f'<table:table table:name="{title}">{lines}</table:table>'
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    content = (
        f'<office:document-content xmlns:office="{names}:office:1.0" '
        f'xmlns:table="{names}:table:1.0" xmlns:text="{names}:text:1.0"><office:body>'
        f"<office:spreadsheet>{tables}"
        "</office:spreadsheet></office:body></office:document-content>"
    )
    manifest = (
        f'<manifest:manifest xmlns:manifest="{names}:manifest:1.0"><manifest:file-entry '
        f'manifest:full-path="/" manifest:media-type="{kind}"/></manifest:manifest>'
    )
    return _zipped({"mimetype": kind, "META-INF/manifest.xml": manifest, "content.xml": content})


def _zipped(parts: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return content.getvalue()


def problem_of(case: Case) -> str:
    """What is wrong with the field that is read from a file without any option; empty if nothing
    is."""
    from tangentbundle.errors import TangentBundleError
    from tangentbundle.io import read_field
    from tangentbundle.units import conversion

    truth = case.truth
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = read_field(case.path)
    except TangentBundleError as error:
        return f"refused: {error}"
    coordinates = content.space.coordinates
    if coordinates.shape != truth.coordinates.shape:
        return f"{len(coordinates)} points instead of {len(truth.coordinates)}"
    order = np.lexsort(coordinates.T)
    expected = np.lexsort(truth.coordinates.T)
    if not np.allclose(coordinates[order], truth.coordinates[expected], atol=1e-6):
        return "other coordinates"
    if content.values is None:
        return "no vectors"
    if len(content.values) != len(truth.vectors):
        return f"{len(content.values)} times instead of {len(truth.vectors)}"
    factor = conversion(content.units or "m/s", "m/s")
    if factor is None:
        return f"unit {content.units}"
    there = ~np.isnan(truth.vectors[:, expected])
    different = np.abs(factor * content.values[:, order] - truth.vectors[:, expected])[there]
    if different.max() > truth.tolerance:
        return f"vectors differ by {different.max():.3g}"
    observed = getattr(content, "observed", None)
    if there.all():
        return ""
    if observed is None or not np.array_equal(observed[:, order], there.all(axis=2)):
        return "missing measurements are not marked"
    return ""


def main() -> None:
    """Write the corpus and print which files are read right."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    cases = corpus(folder)
    problems = {case.path.name: problem_of(case) for case in cases}
    for name, problem in problems.items():
        print(f"{name:<36}{problem[:110] or 'ok'}")
    right = list(problems.values()).count("")
    print(f"{right} of {len(cases)} files are read right at once")


if __name__ == "__main__":
    main()
