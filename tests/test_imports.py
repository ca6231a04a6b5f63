"""What is loaded: the library when it is imported, nothing heavy for the tool's help."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import netCDF4
import pytest

import tangentbundle as tb

HELP = {
    "tangentbundle": "from tangentbundle_cli import app; app(['--help'], standalone_mode=False)",
    "python -m tangentbundle": (
        # as Python has it while it looks for the module
        "import runpy; sys.argv = ['-m', '--help']\n"
        "try: runpy.run_module('tangentbundle', run_name='__main__', alter_sys=True)\n"
        "except SystemExit: pass"
    ),
}
END = "\nprint(json.dumps(sorted(m for m in sys.modules if '.' not in m)), file=sys.stderr)"


def run(code):
    """What a new Python prints on standard error, read as JSON, and on standard output."""
    begin = "import json, os, sys\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + code], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stderr.splitlines()[-1]), done.stdout


@pytest.mark.parametrize("name", HELP)
def test_help_loads_nothing_heavy(name):
    modules, text = run(HELP[name] + END)
    assert (
        not {"torch", "numpy", "scipy", "pyarrow"} & {*modules}
        and "denoise" in text
        and "doctor" in text
    )


def test_the_library_loads_no_optional_packages():
    """Nor does it need them to say what is missing."""
    optional = [
        "pandas",
        "xarray",
        "pyarrow",
        "sklearn",
        "matplotlib",
        "plotly",
        "dask",
        "pooch",
        "netCDF4",
    ]
    code = (
        "import tangentbundle as tb; tb.TangentBundle; tb.nn.SheafConv\n"
        f"loaded = {{*{optional}, 'torch_geometric', 'tangentbundle.plot'}} & {{*sys.modules}}\n"
        "sys.modules['xarray'] = None; data = tb.datasets.load_wind()\n"
        "try: data.dataset\n"
        "except tb.errors.MissingExtraError as error: print(error)\n"
        "print(json.dumps([*loaded]), file=sys.stderr)"
    )
    loaded, text = run(code)
    assert loaded == [] and "tangentbundle[data]" in text


def test_every_public_name_is_there():
    assert all(getattr(tb, name) is not None for name in dir(tb))
    assert {*dir(tb)} == {*tb.__all__} and len({*tb.HOMES} & {*tb.MODULES}) == 0
    for name in ("smooth", "decompose", "Grid"):
        assert name in dir(tb.earth)
    with pytest.raises(AttributeError, match=r"no attribute 'zzz'$"):
        _ = tb.zzz


def test_type_checkers_see_every_public_name():
    """The imports under TYPE_CHECKING are those that happen at run time."""
    tree = ast.parse(Path(tb.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name: f".{node.module or ''}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == tb.HOMES | dict.fromkeys(tb.MODULES, ".")


def test_internal_modules_are_imported_by_name():
    code = (
        "import tangentbundle as tb\n"
        "hidden = [name for name in ('memory', 'files', 'saving') if not hasattr(tb, name)]\n"
        "import tangentbundle.memory\n"
        "print(json.dumps([hidden, hasattr(tb, 'memory')]), file=sys.stderr)"
    )
    assert run(code)[0] == [["memory", "files", "saving"], True]


@pytest.mark.parametrize(
    "name, meant", [("tangentbundel", "TangentBundle"), ("FieldDenoise", "FieldDenoiser")]
)
def test_similar_names_are_suggested(name, meant):
    line = f"import tangentbundle as tb; tb.{name}"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True)
    assert done.stderr.rstrip().endswith(f"Did you mean: {meant!r}?")


def test_every_method_is_a_name_of_tb():
    """How filters are evaluated, how forecasts are made, and the filters themselves."""
    for base in (tb.filters.Method, tb.forecast.methods.ForecastMethod):
        assert base.__subclasses__() == [
            getattr(tb, method.__name__) for method in base.__subclasses__()
        ]
    filters = [vars(tb.filters)[name] for name in tb.filters.__all__ if name[0].isupper()]
    assert {f.__name__ for f in filters if issubclass(f, tb.filters.Filter)} - {*dir(tb)} == set()


MISTAKES = {
    "no file": ("denoise", "none.csv", "-o", "out.csv"),
    "unknown column": ("inspect", "field.csv", "--vectors", "p,q,r"),
    "no column of vectors": ("denoise", "points.csv", "-o", "out.csv", "--report", "out.html"),
    "unknown suffix": ("filter", "field.csv", "--heat", "1", "-o", "out.xyz"),
    "bad option": ("filter", "field.csv", "--heat", "-1", "-o", "out.csv"),
    "no time": ("filter", "field.csv", "--heat", "inf", "-o", "out.csv"),
    "no radius": ("inspect", "field.csv", "--eps", "nan"),
    "no length": ("filter", "wind.nc", "--scale", "5", "-o", "out.nc"),
    "no standard deviation": ("denoise", "field.csv", "--noise", "-1", "-o", "out.csv"),
    "no seed": ("denoise", "field.csv", "--seed", "-1", "-o", "out.csv"),
    "no report": ("inspect", "field.csv", "--report", "out.pdf"),
    "no second file": ("interpolate", "field.csv", "--at", "none.csv", "-o", "out.csv"),
    "no variable": ("filter", "wind.nc", "--vectors", "a,b", "--heat", "1", "-o", "out.nc"),
    "no dimension": ("filter", "wind.nc", "--select", "lev=500", "--heat", "1", "-o", "out.nc"),
    "no variable to smooth": (
        "filter",
        "wind.nc",
        "--variables",
        "a,b",
        "--scale",
        "500 km",
        "-o",
        "out.nc",
    ),
    "no coordinates": ("decompose", "wind.nc", "--latlon", "a,b", "-o", "out.nc"),
    "no history": (
        "interpolate",
        "field.csv",
        "--at",
        "field.csv",
        "--history",
        "none.nc",
        "-o",
        "out.csv",
    ),
    "no member": ("forecast", "wind.nc", "--select", "member=1", "--horizon", "2", "-o", "out.nc"),
    "output is the input": ("denoise", "field.csv", "-o", "field.csv"),
    "no NetCDF": ("inspect", "bad.nc"),
}


def test_mistakes_are_refused_before_anything_heavy_is_loaded(tmp_path):
    """One after the other: whoever loads something heavy is the first to name it."""
    (tmp_path / "field.csv").write_text("x,y,z,vx,vy,vz\n" + "1,2,3,4,5,6\n" * 20)
    (tmp_path / "points.csv").write_text("x,y,z\n" + "1,2,3\n" * 20)
    (tmp_path / "bad.nc").write_text("text")
    with netCDF4.Dataset(tmp_path / "wind.nc", "w") as file:
        file.createDimension("level", 2)
    heavy = {"torch", "numba", "scipy", "sklearn", "pandas", "xarray", "matplotlib", "plotly"}
    code = (
        f"os.chdir({str(tmp_path)!r})\nfrom tangentbundle_cli import app\nfound = {{}}\n"
        f"for name, line in {MISTAKES!r}.items():\n"
        "    code = None\n"
        "    try: app(line)\n"
        "    except SystemExit as end: code = end.code\n"
        "    outputs = [file for file in os.listdir() if file.startswith('out')]\n"
        f"    found[name] = [code, *({heavy!r} & {{*sys.modules}}), *outputs]\n"
        "print(json.dumps(found), file=sys.stderr)"
    )
    assert run(code)[0] == {name: [2] for name in MISTAKES}


@pytest.mark.parametrize("name", HELP)
def test_threads_are_told_to_sleep_before_torch_is_loaded(name):
    """OpenMP reads its settings once, when torch is loaded."""
    line = HELP[name].replace("--help", "doctor")
    code = (
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch': raise SystemExit(print(os.environ.get('OMP_WAIT_POLICY')))\n"
        "os.environ.pop('OMP_WAIT_POLICY', None); sys.meta_path.insert(0, Watch())\n"
        f"try:\n    {line.replace(chr(10), chr(10) + '    ')}\nexcept BaseException: pass\n"
        "print('[]', file=sys.stderr)"
    )
    assert run(code)[1].splitlines()[0] == "PASSIVE"


def test_python_m_is_the_command():
    words = [sys.executable, "-m", "tangentbundle", "inspect", "none.csv"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (
        done.returncode == 2 and done.stderr == "error: no such file: none.csv. Check the path.\n"
    )
