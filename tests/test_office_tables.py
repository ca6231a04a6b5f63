"""Tables as offices write them are read right at once, and what was found out is said; series in
long tables come back in the same form."""

import numpy as np
import office_tables as office
import pandas as pd
import pytest
from tool import run

from tangentbundle.errors import (
    DamagedFileError,
    InvalidInputError,
    MissingColumnsError,
    UnitsError,
)
from tangentbundle.io import Request, read_field
from tangentbundle.layout import Layout, Numerals


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    found = office.corpus(tmp_path_factory.mktemp("office"))
    return {case.path.name: case for case in found}


@pytest.mark.parametrize("number", range(63))
def test_office_tables_are_read_right(number, cases):
    assert len(cases) == 63
    case = [*cases.values()][number]
    assert office.problem_of(case) == "", case.path.name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("latin1_german.csv", ("Windows-1252", "semicolons", "decimal commas")),
        ("utf16_tabs.txt", ("UTF-16", "tabs")),
        ("thousands_german.csv", ("decimal commas", "digits grouped by points")),
        ("title_lines.csv", ("2 lines above the names skipped",)),
        ("units_row.csv", ("units in the row below the names", "m/s")),
        ("comments_above.csv", ("comment lines with #",)),
        ("empty_rows_at_the_end.csv", ("3 empty rows left out",)),
        ("two_sheets.xlsx", ("sheet Wind", "other sheets: Info")),
        ("weather_model.csv", ("wind_speed_10m (km/h)", "columns not used: station, elevation")),
        ("long_german_with_gaps.csv", ("45 rows are 4 times", "3 of 48 measurements are missing")),
    ],
)
def test_what_was_found_out_is_said(name, words, cases):
    notes = " ".join(note.text(str) for note in read_field(cases[name].path).notes)
    assert all(word in notes for word in words), notes


def test_options_say_how_a_table_is_written(tmp_path):
    rows = "".join(f"{10 + k},{k},1.{k}25,2.{k}50\n".replace(",", ";") for k in range(8))
    path = tmp_path / "a.csv"
    path.write_text("lat;lon;u;v\n" + rows)
    assert read_field(path).values[0, 1, 0] == 1.125
    layout = Layout(decimal=",", thousands=".")
    assert read_field(path, Request(layout=layout)).values[0, 1, 0] == 1125
    with pytest.raises(InvalidInputError, match="encoding"):
        read_field(path, Request(layout=Layout(encoding="utf-99")))


WRITINGS = [
    Numerals(decimal, thousands)
    for decimal, groups in ((".", ("", ",", "'", " ")), (",", ("", ".", "'", " ")))
    for thousands in groups
]


@pytest.mark.parametrize("writing", WRITINGS, ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_numbers_are_read_as_they_were_written(writing, seed):
    """Whatever numbers a table has: none comes out as another one."""
    rng = np.random.default_rng(seed)
    numbers = np.round(rng.normal(size=12) * 10.0 ** rng.integers(-1, 5, 12), 3)
    numbers = np.append(numbers, [0.125, -0.25, 1013.5])

    def written(number):
        text = f"{number:,.3f}"
        return text.translate({ord(","): writing.thousands, ord("."): writing.decimal})

    cells = [written(number) for number in numbers]
    numerals = Numerals.of(cells, Layout())
    assert [numerals.as_float(cell) for cell in cells] == numbers.tolist()


@pytest.mark.parametrize("groups", [6, 60])
def test_a_leading_zero_is_no_thousand(groups):
    numerals = Numerals.of(["0.125", "-0.250", *["1,013"] * groups], Layout())
    assert numerals.as_float("0.125") == 0.125
    assert numerals.as_float("1,013") == 1013.0


@pytest.mark.parametrize("cell", ["1,5", "1,50", "1,5000", "12,34,567", "0,500", "1.5,000", ",500"])
def test_groups_without_three_digits_are_no_numbers(cell):
    assert Numerals(".", ",").as_float(cell) is None


@pytest.mark.parametrize("unit", ["rad", "radians", "gon"])
def test_places_must_be_in_degrees(unit, tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f"0.{k}1,0.{k}5,1.5,0.5\n" for k in range(9))
    path.write_text(f"lat ({unit}),lon ({unit}),u,v\n" + rows)
    with pytest.raises(UnitsError, match="degrees"):
        read_field(path)


def test_directions_in_other_angles_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f"{k},{k},1.5,{30 * k}\n" for k in range(9))
    path.write_text("lat,lon,speed,direction (gon)\n" + rows)
    with pytest.raises(UnitsError, match="degrees or radians"):
        read_field(path)


@pytest.mark.parametrize("units", [("km", "m"), ("m", "ft")])
def test_coordinates_of_different_units_are_refused(units, tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f"{k},{k * k},1.5,0.5\n" for k in range(9))
    path.write_text(f"x [{units[0]}],y [{units[1]}],u,v\n" + rows)
    with pytest.raises(UnitsError, match="different units"):
        read_field(path)
    path.write_text(f"x [{units[0]}],y [{units[0]}],u,v\n" + rows)
    assert read_field(path).space.places[2].tolist() == [2.0, 4.0]


@pytest.mark.parametrize("row", ["10E,20,1,2", "10,20N,1,2", "10 75 N,20,1,2"])
def test_sides_and_minutes_that_do_not_exist_are_no_places(row, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("lat,lon,u,v\n" + "".join(f"{k}N,{k}E,1,2\n" for k in range(9)) + row + "\n")
    with pytest.raises(DamagedFileError, match="row 10"):
        read_field(path)


@pytest.mark.parametrize(
    ("cell", "words", "number"),
    [
        ("1,5", "decimal commas in numbers that are text", 1.5),
        ("1,500", "decimal commas in numbers that are text", 1.5),
        ("1,500.5", "digits of numbers that are text grouped by commas", 1500.5),
    ],
)
def test_how_numbers_that_are_text_are_read_is_said(cell, words, number, tmp_path):
    path = tmp_path / "a.xlsx"
    sheet = [["lat", "lon", "u", "v"], *[[k, k, 0.5, 0.5] for k in range(9)], [9, 9, cell, 0.5]]
    path.write_bytes(office.xlsx({"a": sheet}))
    field = read_field(path)
    assert field.values[0, 9, 0] == number
    assert words in field.notes[0].text(str)


def test_sheets_are_chosen_or_listed(tmp_path):
    sheet = [office.GERMAN, *office.rows()]
    path = tmp_path / "a.xlsx"
    path.write_bytes(office.xlsx({"Montag": sheet, "Dienstag": sheet[:6]}))
    with pytest.raises(InvalidInputError, match=r"sheets Montag, Dienstag.*sheet='Montag'"):
        read_field(path)
    assert len(read_field(path, Request(layout=Layout(sheet="Dienstag"))).space) == 5
    with pytest.raises(InvalidInputError, match="Montag or Dienstag"):
        read_field(path, Request(layout=Layout(sheet="Mittwoch")))
    path.write_bytes(office.xlsx({"Montag": [["only a title"], ["and another"]]}))
    with pytest.raises(MissingColumnsError):
        read_field(path)


@pytest.mark.parametrize("name", ["long_german_with_gaps.csv", "long_iso.csv", "long_calendar.csv"])
def test_denoised_series_have_the_rows_of_their_file(name, cases, tmp_path):
    path = cases[name].path
    run("denoise", path, "-o", tmp_path / "out.csv", "--quiet")
    options = {"sep": None, "engine": "python", "dtype": str}
    before = pd.read_csv(path, encoding="latin-1", **options)
    after = pd.read_csv(tmp_path / "out.csv", encoding="latin-1", **options)
    assert len(after) == len(before) and list(after)[: len(before.columns)] == list(before)
    vectors = [column for column in before if column.startswith(("u", "v", "Ost", "Nord"))]
    for column in before.columns.drop(vectors):
        assert list(after[column]) == list(before[column]), column
    again = read_field(tmp_path / "out.csv")
    original = read_field(path)
    assert np.array_equal(again.times, original.times)
    assert np.abs(again.values - original.values).max() < 8


def test_interpolated_and_forecast_series_are_long_tables(cases, tmp_path):
    (tmp_path / "at.csv").write_text("name,lat,lon\nA,50,8\nB,51,9\n")
    source = cases["long_german_with_gaps.csv"].path
    run("interpolate", source, "--at", tmp_path / "at.csv", "-o", tmp_path / "b.csv", "--quiet")
    table = pd.read_csv(tmp_path / "b.csv")
    assert len(table) == 2 * 4 and table["Datum"][0] == "15.01.2026 00:00"
    assert list(table["name"]) == ["A", "B"] * 4
    days = pd.date_range("2026-01-01", periods=40)
    rng = np.random.default_rng(0)
    frames = []
    for number, day in enumerate(days):
        wind = {"u": np.sin(number + office.W.lat), "v": rng.standard_normal(office.N)}
        frame = pd.DataFrame({"Tag": f"{day:%d.%m.%Y}", "Station": office.STATIONS})
        frames.append(frame.assign(lat=office.W.lat, lon=office.W.lon, **wind, t=rng.random()))
    pd.concat(frames).drop(index=[3]).to_csv(tmp_path / "days.csv", index=False)
    command = ("forecast", tmp_path / "days.csv", "--horizon", 2, "-o", tmp_path / "next.csv")
    run(*command, "--quiet")
    future = pd.read_csv(tmp_path / "next.csv")
    assert list(future.columns) == ["Tag", "Station", "lat", "lon", "u", "v"]
    assert list(future["Tag"].unique()) == ["10.02.2026", "11.02.2026"]
    assert set(future["Station"]) < set(office.STATIONS)


def test_degrees_may_have_minutes_and_sides(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("lat,lon,u,v\n48°30'N,11°15'W,1,2\n10.5S,20.25E,1,2\n0,0,1,3\n")
    expected = [[48.5, -11.25], [-10.5, 20.25], [0, 0]]
    assert read_field(path).space.coordinates.tolist() == expected


def test_directions_in_tens_of_degrees_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("lat,lon,Wind Spd (km/h),Wind Dir (10s deg)\n1,2,3,25\n2,3,4,26\n3,1,5,5\n")
    with pytest.raises(UnitsError, match="tens of degrees"):
        read_field(path)


@pytest.mark.parametrize("name", ["direction_to", "towards", "Current Direction (to)", "heading"])
def test_directions_to_which_something_moves_are_refused(name, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"lat,lon,speed,{name}\n1,2,3,25\n2,3,4,26\n3,1,5,5\n")
    with pytest.raises(UnitsError, match="comes from"):
        read_field(path, Request(wind=("speed", name)))


def test_words_of_networks_for_missing_numbers(tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f"S{k},2026-01-0{d},{k},{k * k},{10 * k},3\n" for d in (1, 2) for k in range(5))
    path.write_text("station,valid,lat,lon,drct,sknt\n" + rows.replace("30,3\n", "M,M\n"))
    field = read_field(path)
    assert field.units == "kt" and field.values.shape == (2, 4, 2)


@pytest.mark.parametrize("name", ["sheet.xlsx", "sheet.xls", "sheet.ods", "compressed.csv.gz"])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_damaged_files_are_refused(name, share, cases, tmp_path):
    content = cases[name].path.read_bytes()
    (tmp_path / name).write_bytes(content[: int(share * len(content))])
    with pytest.raises(DamagedFileError, match="not a"):
        read_field(tmp_path / name)


def test_places_of_a_series_are_read_once(cases):
    case = cases["long_german_with_gaps.csv"]
    places = read_field(case.path, Request(only_points=True)).space.coordinates
    assert len(places) == office.N


ROWS = "".join(f"S{k},{40 + k % 3},{10 + k},1.{k},0.{k}\n" for k in range(8))


@pytest.mark.parametrize(
    ("names", "advice"),
    [
        ("id,latitude,longtitude,u,v", "--latlon latitude,longtitude."),
        ("id,lat,lon,eastwrad_wind,northward_wind", "--vectors eastwrad_wind,northward_wind."),
        ("id,lat,lon,Wind East [m/s],Wind North [m/s]", '--vectors "Wind East,Wind North".'),
        ("id,Breite,Länge,Strom Ost,Strom Nord", '--vectors "Strom Ost,Strom Nord".'),
        ("id,lat,lon,wind_spede,wind_dir", "--wind wind_spede,wind_dir."),
        ("id,altitude,longitude,u,v", "--latlon LAT,LON."),
        ("id,lat,lon,eastward_wind,southward_wind", "--wind SPEED,DIRECTION."),
    ],
)
def test_errors_name_columns_that_are_nearly_right(names, advice, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"{names}\n{ROWS}", encoding="utf-8")
    result = run("denoise", path, "-o", tmp_path / "b.csv", code=2)
    assert result.stderr.rstrip().endswith(advice)


def test_variable_winds_have_no_direction_in_german_either(tmp_path):
    rows = "".join(f"{50 + k % 3},{10 + k},{5 + k},NO\n" for k in range(7))
    path = tmp_path / "a.csv"
    path.write_text(f"Breite,Länge,Windgeschwindigkeit,Windrichtung\n{rows}51,20,9,variabel\n")
    field = read_field(path, Request(drop_missing=True))
    assert len(field.space) == 7
    notes = " ".join(note.text(str) for note in field.notes)
    assert "1 of 8 rows with missing numbers left out: row 8" in notes


def test_a_note_says_where_components_point(tmp_path):
    """An "Ostwind" is a wind from the east for a German, but a component towards it for others."""
    path = tmp_path / "a.csv"
    path.write_text(f"id,Breite,Länge,Ostwind,Nordwind\n{ROWS}", encoding="utf-8")
    notes = " ".join(note.text(str) for note in read_field(path).notes)
    assert "Ostwind, Nordwind, guessed by name, taken as parts towards east and north" in notes


@pytest.mark.parametrize("has_moved", [True, False])
def test_a_station_whose_coordinates_differ_between_rows_is_named(has_moved, tmp_path):
    """Two places next to each other are one station if they have no time in common."""
    rng = np.random.default_rng(0)
    rows = []
    for day in (1, 2, 3):
        for number in range(8):
            latitude = 40.0 + number + (0.0001 if has_moved and (day, number) == (2, 5) else 0.0)
            wind = rng.standard_normal(2).round(2)
            rows.append((f"2026-01-0{day}", f"S{number}", latitude, 10.0 + number**2 / 10, *wind))
    table = pd.DataFrame(rows, columns=["date", "station", "lat", "lon", "u", "v"])
    table.to_csv(tmp_path / "a.csv", index=False)
    notes = " ".join(str(note) for note in read_field(tmp_path / "a.csv").notes)
    assert ("rows 6 and 14 are close to each other" in notes) == has_moved
