"""Errors, warnings and notes are objects: the library prints their arguments, the tool options."""

import numpy as np
import pandas as pd
import pytest
from tool import run

import tangentbundle as tb
from tangentbundle.errors import (
    NO_EXAMPLE,
    Argument,
    InvalidInputError,
    MissingColumnsError,
    MissingValuesNote,
    NonFiniteError,
    Note,
    NotManifoldError,
    Remedy,
    SuspiciousDataWarning,
    warn,
)
from tangentbundle.io import Field, Request, read_field
from tangentbundle.report import write_report
from tangentbundle.results import Result
from tangentbundle.spaces import Cloud, Mesh
from tangentbundle_cli.tool import as_option

OPTIONS = {"drop_missing", "neighbors", "noise", "std", "vectors", "select"}


def table(n=30, **changes):
    rng = np.random.default_rng(0)
    columns = {name: rng.standard_normal(n) for name in ("x", "y", "z", "vx", "vy", "vz")}
    return pd.DataFrame(columns | changes)


@pytest.mark.parametrize(
    "argument, python, option",
    [
        (Argument("neighbors", 20), "neighbors=20", "--neighbors 20"),
        (Argument("neighbors", ...), "neighbors=...", "--neighbors ..."),
        (Argument("neighbors"), "neighbors", "--neighbors"),
        (Argument("drop_missing", True), "drop_missing=True", "--drop-missing"),
        (Argument("vectors", ("u", "v")), "vectors=('u', 'v')", "--vectors u,v"),
        (Argument("noise_std"), "noise_std", "--noise"),
        (Argument("return_std", True), "return_std=True", "--std"),
        (Argument("max_memory", 8), "max_memory=8", "max_memory=8"),
    ],
)
def test_arguments_are_options_of_the_tool(argument, python, option):
    assert str(argument) == python and as_option(argument, OPTIONS) == option


def test_values_in_messages_are_never_taken_for_arguments():
    """Names from files may look like arguments, or like places in a template."""
    error = InvalidInputError(
        "no such file: neighbors=1/{dim}.csv.", Remedy("Use {neighbors}.", neighbors=20)
    )
    text = error.text(lambda argument: as_option(argument, OPTIONS))
    assert text == "no such file: neighbors=1/{dim}.csv. Use --neighbors 20."
    assert str(InvalidInputError("{x}", "Correct {x}.")) == "{x} Correct {x}."


def test_an_error_has_what_was_expected_and_what_came():
    error = InvalidInputError(argument="dim", expected="from 1 to 3", received="7")
    assert (error.argument, error.expected, error.received) == ("dim", "from 1 to 3", "7")
    assert str(error) == "dim must be from 1 to 3, got 7."
    with pytest.raises(InvalidInputError) as caught:
        tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(100, seed=0), dim=7)
    assert (caught.value.argument, caught.value.received) == ("dim", "7")


def test_missing_rows_name_the_argument(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table(vx=[np.nan] + [1.0] * 29).to_csv("a.csv", index=False)
    with pytest.raises(NonFiniteError) as caught:
        read_field("a.csv")
    assert caught.value.remedy.arguments == {"drop_missing": Argument("drop_missing", True)}
    assert caught.value.problem.startswith("1 of 30 rows have missing")
    assert "with --drop-missing." in run("inspect", "a.csv", code=2).stderr


def test_unknown_vectors_name_the_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table().drop(columns=["vx", "vy", "vz"]).to_csv("a.csv", index=False)
    with pytest.raises(MissingColumnsError) as caught:
        read_field("a.csv")
    assert caught.value.remedy.arguments["vectors"].example == ("VX", "VY", "VZ")
    assert "--vectors VX,VY,VZ" in run("denoise", "a.csv", "-o", "b.csv", code=2).stderr


def test_a_broken_mesh_is_used_by_its_vertices():
    points = np.random.default_rng(0).standard_normal((5, 3))
    mesh = Mesh(points, np.array([[0, 1, 2], [0, 1, 3], [0, 1, 4]]))
    with pytest.raises(NotManifoldError) as caught:
        mesh.bundle()
    assert caught.value.remedy.arguments == {"neighbors": Argument("neighbors", 20)}
    assert "from_points" not in str(caught.value)  # the remedy for those who have no file


def test_why_numbers_are_missing_is_a_kind_of_note(tmp_path):
    """Not a word in it: names of columns may hold the same word."""
    rng = np.random.default_rng(0)
    columns = {"lat": 60 * rng.random(20), "lon": 60 * rng.random(20)}
    columns |= {"u missing [m/s]": rng.random(20), "v missing [m/s]": rng.random(20)}
    frame = pd.DataFrame(columns)
    path = tmp_path / "a.csv"
    frame.to_csv(path, index=False)
    request = Request(vectors=("u missing", "v missing"))
    assert not any(isinstance(note, MissingValuesNote) for note in read_field(path, request).notes)
    frame.loc[3, "u missing [m/s]"] = 1e20
    frame.to_csv(path, index=False)
    with pytest.raises(NonFiniteError, match=r"\(1 vectors above 500 m/s cannot be wind[^)]*\)\."):
        read_field(path, request)


def test_warnings_have_remedies_and_points():
    remedy = Remedy("Use {neighbors}.", neighbors=NO_EXAMPLE)
    with pytest.warns(SuspiciousDataWarning) as caught:
        warn("strange.", SuspiciousDataWarning, point=3, remedy=remedy)
    warning = caught[0].message
    warning.place = "row 4"
    assert warning.point == 3 and str(warning) == "strange. Use neighbors. Point 3 is row 4."


def test_reports_print_options_and_arguments(tmp_path):
    points = tb.manifolds.Sphere(2).sample(60, seed=0)
    result = Result("inspect", before=Field(Cloud(points, ("x", "y", "z"))))
    result.notes.append(Note("two levels;", Remedy("{select} chooses one", select=NO_EXAMPLE)))
    result.warnings.append(InvalidInputError("odd.", Remedy("Use {neighbors}.", neighbors=20)))
    result.spelling = lambda argument: as_option(argument, OPTIONS)
    write_report(result, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "Use --neighbors 20 (in Python: neighbors=20)." in page
    assert "two levels; --select (in Python: select) chooses one" in page
    assert result.to_json()["notes"] == ["two levels; --select chooses one"]
    assert "note: two levels; --select chooses one" in result.text()
