"""Commands are functions: called from Python they return what the tool prints."""

import dataclasses
import inspect
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tool import told, working_folder

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError, IsolatedPointsError
from tangentbundle.results import Result
from tangentbundle_cli import COMMANDS
from tangentbundle_cli.fields import inspect as inspect_file
from tangentbundle_cli.filtering import filter as filter_file
from tangentbundle_cli.options import Display, Geometry, Reading
from tangentbundle_cli.plain_words import Errors, guesses_in_words
from tangentbundle_cli.predict import denoise

ALL_DIGITS = Display(quiet=True, digits=16)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return working_folder(tmp_path, monkeypatch)


def numbers(result):
    """The values of a result as JSON has them, but its time and Python's warnings."""
    content = json.loads(json.dumps(result.to_json()))
    return {
        key: value for key, value in content.items() if key not in ("seconds", "files", "warnings")
    }


@pytest.mark.filterwarnings("ignore")
def test_a_command_returns_what_the_tool_prints(folder, capsys):
    result = filter_file(Path("field.csv"), Path("a.csv"), heat=0.01, display=ALL_DIGITS)
    assert isinstance(result, Result) and result.files == [Path("a.csv")]
    printed = told("filter", "field.csv", "--heat", 0.01, "-o", "b.csv", "--digits", 16)
    assert numbers(result) == {key: printed[key] for key in numbers(result)}
    assert np.array_equal(pd.read_csv("a.csv"), pd.read_csv("b.csv"))
    assert np.array_equal(result.after.vectors[0], pd.read_csv("a.csv").to_numpy()[:, 3:])
    assert capsys.readouterr().out == ""  # showing it is the tool's


@pytest.mark.filterwarnings("ignore")
def test_groups_of_options_are_objects(folder):
    table = pd.read_csv("field.csv").rename(columns={"vx": "a", "vy": "b", "vz": "c"})
    table.to_csv("renamed.csv", index=False)
    result = inspect_file(
        Path("renamed.csv"), Geometry(neighbors=20), k=0, reading=Reading(vectors="a,b,c")
    )
    assert result.before.names == ("a", "b", "c") and "given" in dict(result.rows)["scale"]
    assert Reading(points="x, y").request().points == ("x", "y")
    assert Reading(select=["level=500"]).request().select == {"level": "500"}
    for wrong in (["level"], ["level=500", "level=850"]):
        with pytest.raises(InvalidInputError, match="--select NAME=VALUE"):
            Reading(select=wrong).request()


@pytest.mark.filterwarnings("ignore")
def test_errors_are_raised_and_say_where_in_the_file(folder):
    table = pd.read_csv("field.csv")
    table.loc[7, ["x", "y", "z"]] = 50.0
    table.to_csv("far.csv", index=False)
    with pytest.raises(IsolatedPointsError, match="Point 7 is row 8, x 50") as caught:
        filter_file(Path("far.csv"), Path("a.csv"), heat=0.1, geometry=Geometry(eps=0.05))
    assert caught.value.place.startswith("row 8") and not Path("a.csv").exists()


def test_warnings_outside_of_the_tool_are_warnings(folder):
    table = pd.read_csv("field.csv")
    table[["vx", "vy", "vz"]] = np.random.default_rng(0).standard_normal((len(table), 3))
    table.to_csv("noise.csv", index=False)
    with pytest.warns(tb.errors.TangentBundleWarning) as caught:
        inspect_file(Path("noise.csv"), k=0)
    assert tb.errors.NotTangentWarning in {warning.category for warning in caught}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_every_command_is_an_ordinary_function(command):
    """Its parameters have types, its groups of options are dataclasses, and it returns a result."""
    signature = inspect.signature(command, eval_str=True)
    assert signature.return_annotation is Result
    assert signature.parameters["display"].annotation is Display
    for parameter in signature.parameters.values():
        if dataclasses.is_dataclass(parameter.annotation):
            assert isinstance(parameter.default, parameter.annotation)


def test_results_of_a_series_are_the_means_of_its_fields(folder):
    result = denoise(Path("field.csv"), Path("a.npz"), std=True)
    assert result.after.std.shape == result.after.values.shape == (1, 120, 3)
    assert result.table.title == "Models" and result.data["noise"] > 0


class UncertainFarAway:
    """An estimator of wind at the equator whose errors grow with the longitude."""

    def predict(self, points, return_cov):
        deviations = np.arctan2(points[:, 1], points[:, 0])
        return points, deviations[:, None, None] ** 2 * np.eye(3)


@pytest.mark.parametrize(
    ("longitudes", "words"),
    [
        ([1.0, 2.0, 3.0, 60.0], "more than 6700 km from a measurement are guesses (25% of"),
        ([1.0, 2.0, 3.0, 4.0], ""),
    ],
)
def test_guesses_are_counted_where_there_is_one_too(longitudes, words):
    station = tb.io.Field(tb.spaces.Globe(np.array([0.0]), np.array([0.0])))
    places = tb.io.Field(tb.spaces.Globe(np.zeros(4), np.array(longitudes)))
    errors = Errors(sizes=1.0, fields=1)
    sentence = guesses_in_words(UncertainFarAway(), station, places, errors)
    assert words in sentence and (words != "" or sentence == "")
