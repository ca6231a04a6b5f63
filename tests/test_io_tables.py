"""Tables: text of all kinds, and columns that are passed through."""

import random

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

from tangentbundle.errors import DTypeError, InvalidInputError, OutputError, TangentBundleError
from tangentbundle.io import Field, Request, read_field, write_field
from tangentbundle.spaces import Cloud


def test_tables_hold_one_field(tmp_path):
    """Repeated places are refused with a word on series, and several fields are not written."""
    rows = "".join(f"{t},{k},1,0,{t}\n" for t in range(3) for k in range(5))
    (tmp_path / "a.csv").write_text("time,x,y,vx,vy\n" + rows)
    with pytest.raises(
        InvalidInputError, match=r"10 of 15 points coincide.*told apart by column time"
    ):
        read_field(tmp_path / "a.csv")
    points = np.random.default_rng(0).standard_normal((5, 3))
    field = Field(Cloud(points, ("x", "y", "z")), np.stack([points, points]))
    for name in ("a.csv", "a.parquet", "a.ply"):
        with pytest.raises(OutputError, match="hold one field, but there are 2"):
            write_field(field, tmp_path / name)


def test_other_columns_stay_as_they_were_written(tmp_path):
    lines = [
        f"{k:03d},{k},{k * k},{0.5 * k},1,{k}e-3,0,{'a b' if k % 2 else ''}" for k in range(500)
    ]
    (tmp_path / "a.csv").write_text("id,x,y,z,vx,vy,vz,note\n" + "\n".join(lines))
    field = read_field(tmp_path / "a.csv")
    assert np.array_equal(field.space.points[:, 1], np.arange(500.0) ** 2)
    write_field(field, tmp_path / "b.csv")
    again = pd.read_csv(tmp_path / "b.csv", dtype=str, keep_default_na=False)
    assert list(again["id"]) == [line[:3] for line in lines] and set(again["note"]) == {"", "a b"}
    with pytest.raises(TangentBundleError, match=r"Row #501: .* invalid value 'east'"):
        (tmp_path / "c.csv").write_text(
            (tmp_path / "a.csv").read_text().replace("249001,249.5", "249001,east")
        )
        read_field(tmp_path / "c.csv")


def test_one_place_is_enough_to_predict_at(tmp_path):
    (tmp_path / "at.csv").write_text("lat,lon\n50,10\n")
    assert len(read_field(tmp_path / "at.csv", Request(only_points=True)).space) == 1
    with pytest.raises(TangentBundleError, match="at least 3 points"):
        read_field(tmp_path / "at.csv", Request(needs_vectors=False))


# Text of all kinds.

HEADER = "x,y,z,vx,vy,vz\n"
ROWS = "".join(f"{i},{i * i},1,0,{-i / 7!r},1e-3\n" for i in range(5))
NAMES = ",".join(f"column-{k}-{'n' * 40}" for k in range(2000))
MORE = ",".join("0" for _ in range(2000))
FILES = {
    "plain": HEADER + ROWS,
    "line ends": (HEADER + ROWS).replace("\n", "\r\n"),
    "old line ends": (HEADER + ROWS).replace("\n", "\r"),
    "no last line end": (HEADER + ROWS).rstrip(),
    "byte order mark": "\ufeff" + HEADER + ROWS,
    "semicolons": (HEADER + ROWS).replace(",", ";"),
    "tabs": (HEADER + ROWS).replace(",", "\t"),
    "blank lines before": "\n\n" + HEADER + ROWS,
    "blank lines": HEADER.replace("\n", "\n\n") + ROWS.replace("\n", "\n\n"),
    "quoted": HEADER + ROWS.replace("1e-3", '"1e-3"'),
    "spaces": HEADER + ROWS.replace(",", " , "),
    "plus signs": HEADER + ROWS + "+7,+7,1,0,0,1\n",
    "missing cells": HEADER + ROWS + "7,7,NA,0,0,1\n8,8,,0,0,1\n9,9,1.#IND,0,0,1\n",
    "infinite cells": HEADER + ROWS + "7,7,inf,0,0,1\n8,8,-Infinity,0,0,1\n9,9,1e999,0,0,1\n",
    "other columns": "id,x,y,vx,vy,note\n" + "".join(f"00{i},{i},1,0,1,a {i}\n" for i in range(5)),
    "line ends in cells": "x,y,vx,vy,note\n" + "".join(f'{i},1,0,1,"a\nb"\n' for i in range(5)),
    "a long header": f"x,y,{NAMES},vx,vy\n" + "".join(f"{i},1,{MORE},0,1\n" for i in range(5)),
    "underscores": HEADER + ROWS + "7,7,1_000,0,0,1\n",
    "thousands": HEADER + ROWS + '7,7,"1,000",0,0,1\n',
    "decimal commas": (HEADER + ROWS).replace(",", ";").replace(".", ","),
    "other digits": HEADER + ROWS + "7,7,\uff17,0,0,1\n",
    "hexadecimal": HEADER + ROWS + "7,7,0x10,0,0,1\n",
    "text": HEADER + ROWS + "7,7,abc,0,0,1\n",
    "short line": HEADER + ROWS + "7,7,7\n",
    "long line": HEADER + ROWS + "7,7,7,0,0,1,9\n",
    "open quote": HEADER + ROWS + '7,7,"7,0,0,1\n',
    "no rows": HEADER,
    "no header": ROWS,
    "empty": "",
    "repeats": HEADER + ROWS + ROWS,
    "not UTF-8": (HEADER + ROWS).encode() + b"7,7,\xff,0,0,1\n",
}


REFUSED = {
    "underscores",
    "other digits",
    "hexadecimal",
    "text",
    "short line",
    "long line",
}
REFUSED |= {"open quote", "no rows", "no header", "empty", "not UTF-8"}
INCOMPLETE = {"missing cells", "infinite cells", "repeats"}


def described(field):
    """The numbers, and the text of all other columns."""
    others = [
        name for name in field.origin.column_names if name not in (*field.names, *field.space.names)
    ]
    return (
        field.space.points.tolist(),
        field.values.tolist(),
        field.names,
        field.origin.table.select(others).to_pydict(),
    )


def outcome(path, request):
    """Whether the file was read: the same then comes back after it was written. Otherwise it was
    refused by name."""
    try:
        field = read_field(path, request)
    except TangentBundleError:
        return False
    again = path.with_name("again.csv")
    write_field(field, again)
    assert repr(described(field)[:3]) == repr(described(read_field(again, request))[:3])
    return True


@pytest.mark.parametrize("name", FILES)
def test_files_come_back_or_are_refused(name, tmp_path):
    content = FILES[name]
    (tmp_path / "a.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert outcome(tmp_path / "a.csv", Request()) == (name not in REFUSED | INCOMPLETE)
    dropped = outcome(tmp_path / "a.csv", Request(drop_missing=True, drop_duplicates=True))
    assert dropped == (name not in REFUSED)


def test_odd_cells_come_back_or_are_refused(tmp_path):
    """Tables with odd cells, lines too short or too long, separators and line ends of all kinds."""
    rng = random.Random(0)
    odd = [
        "",
        " ",
        "1_000",
        "NA",
        "nan",
        "NAN",
        "+4",
        ".5",
        "1.",
        "1e400",
        '"5"',
        '"a,b"',
        'a"b',
        '"a""b"',
        '"',
        "=1",
    ]
    odd += [
        "\t",
        "1 2",
        "8\u00a0",
        "\u0667",
        "0x1",
        "-",
        "1E+05",
        "Infinity",
        "1,5",
        "True",
        '"x\ny"',
        "\x0b",
    ]
    good = 0
    for _ in range(300):
        separator, end = rng.choice(",,,;\t"), rng.choice(["\n", "\n", "\r\n", "\r"])
        lines = [["x", "y", "vx", "vy", "note"]]
        for k in range(rng.randrange(7)):
            cells = [*(f"{rng.uniform(-9, 9):.3f}" for _ in range(4)), f"s{k}"]
            lines.append([rng.choice(odd) if rng.random() < 0.03 else cell for cell in cells])
            lines[-1] += ["9"] * (rng.random() < 0.02)
        (tmp_path / "a.csv").write_bytes(end.join(separator.join(line) for line in lines).encode())
        good += outcome(tmp_path / "a.csv", Request(drop_missing=True, drop_duplicates=True))
    assert good > 50


def test_what_is_wrong_is_named_with_row_and_column(tmp_path):
    for name, message in {
        "underscores": "column #2: Row #7: .* invalid value '1_000'",
        "short line": "Row #7: Expected 6 columns, got 3",
    }.items():
        (tmp_path / "a.csv").write_text(FILES[name])
        with pytest.raises(TangentBundleError, match=message):
            read_field(tmp_path / "a.csv")


def test_a_long_header_is_read_to_its_end(tmp_path):
    (tmp_path / "a.csv").write_text(FILES["a long header"])
    assert len(FILES["a long header"].partition("\n")[0]) > 2**16
    field = read_field(tmp_path / "a.csv")
    assert field.names == ("vx", "vy") and len(field.origin.column_names) == 2004
    names = "x,y,vx,vy," + ",".join(f"n{k}" for k in range(20_000)) + ",n7"
    (tmp_path / "b.csv").write_text(names + "\n")
    with pytest.raises(InvalidInputError, match="several columns called 'n7'"):
        read_field(tmp_path / "b.csv")


def test_cells_that_are_passed_through_stay_as_they_are(tmp_path):
    """Formulas of spreadsheets, words that mean missing numbers, quotes and line ends come back as
    the same text."""
    cells = [
        "=1+1",
        "+cmd",
        "-x",
        "@sum(A1)",
        "NA",
        "null",
        "",
        " a ",
        "a,b",
        'say "a"',
        "a\nb",
        "00012",
        "1_000",
        "é",
    ]
    table = pd.DataFrame({"x": np.arange(14.0), "y": 1.0, "vx": 0.5, "vy": 2.0, "note": cells})
    table.to_csv(tmp_path / "a.csv", index=False)
    field = read_field(tmp_path / "a.csv")
    write_field(field.with_vectors(2 * field.vectors), tmp_path / "b.csv")
    again = pd.read_csv(tmp_path / "b.csv", dtype={"note": str}, keep_default_na=False)
    assert list(again["note"]) == cells and np.array_equal(again["vy"], 2 * table["vy"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_written_to_text_come_back(dtype, tmp_path):
    sizes = 10.0 ** np.arange(-30, 30, 3)[:, None]
    values = (sizes * np.random.default_rng(0).standard_normal((20, 3))).astype(dtype)
    write_field(Field(Cloud(values, ("x", "y", "z")), values[None]), tmp_path / "a.csv")
    again = read_field(tmp_path / "a.csv")
    assert np.array_equal(again.values[0].astype(dtype), values)


def test_columns_of_parquet_keep_their_types(tmp_path):
    """Those that are passed through, of any type; numbers in any type are read, others are
    refused."""
    table = pd.DataFrame(
        {"x": np.arange(5), "y": np.ones(5, "f4"), "vx": [1, 2, 3, 4, 5], "vy": 1.0}
    )
    table["day"], table["kind"] = (
        pd.date_range("2024-01-01", periods=5),
        pd.Categorical(list("aabba")),
    )
    table["count"], table["note"] = (
        pd.array([1, None, 3, 4, 5], "Int64"),
        ["a", None, "c", "d", "e"],
    )
    table.to_parquet(tmp_path / "a.parquet")
    field = read_field(tmp_path / "a.parquet")
    assert field.values[0, :, 0].tolist() == [1, 2, 3, 4, 5]
    write_field(field, tmp_path / "b.parquet")
    others = ["day", "kind", "count", "note"]
    before, after = (
        pyarrow.parquet.read_table(tmp_path / f"{name}.parquet", columns=others) for name in "ab"
    )
    assert before.equals(after)
    write_field(field, tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text().splitlines()[2].endswith("2024-01-02 00:00:00,a,,")
    with pytest.raises(DTypeError, match="day holds timestamp"):
        read_field(tmp_path / "a.parquet", Request(points=("x", "day"), vectors=("vx", "vy")))
