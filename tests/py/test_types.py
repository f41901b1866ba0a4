"""Types: the package is typed for people's programs, and what it says is what is there."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, ROOT

INSIDE = ("leat.device", "leat.frameworks", "leat.job", "leat.stages", "leat.transform")  # what no user calls
PROGRAMS = Path(__file__).with_name("programs")
pytestmark = pytest.mark.python_only


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    """check("mypy", args…) -> CompletedProcess: a tool of the test environment that sees the package just built."""
    folder = tmp_path_factory.mktemp("types")

    def run(module, *args):
        pytest.importorskip(module.partition(".")[0])
        package = str(BUILD / "python")
        env = {**os.environ, "PYTHONPATH": package, "MYPYPATH": package, "MYPY_CACHE_DIR": str(BUILD / "mypy-cache")}
        command = [sys.executable, "-m", module, *map(str, args)]
        return subprocess.run(command, cwd=folder, env=env, text=True, capture_output=True, timeout=250)

    return run


def mypy(check, *args):
    return check("mypy", "--config-file", ROOT / "pyproject.toml", *args)


def marked(path):
    return {i for i, line in enumerate(path.read_text().splitlines(), 1) if line.endswith("# wrong")}


def test_the_package_is_clean_to_strict_mypy(check):
    done = mypy(check, "-p", "leat")
    assert done.returncode == 0, done.stdout + done.stderr


def test_strict_mypy_takes_a_program_and_finds_the_mistakes_of_another(check):
    done = mypy(check, "--strict", PROGRAMS / "typed.py", PROGRAMS / "typed_wrong.py")
    errors = re.findall(r"^(.*):(\d+): error", done.stdout, flags=re.M)
    found = {(Path(file).name, int(line)) for file, line in errors}
    wrong = {("typed_wrong.py", line) for line in marked(PROGRAMS / "typed_wrong.py")}
    assert found == wrong, done.stdout + done.stderr


@pytest.mark.long
def test_stubs_say_what_is_there(check, tmp_path):
    allowed = tmp_path / "allowed"
    allowed.write_text("".join(f"{re.escape(name)}\\..*\n" for name in INSIDE))
    options = ("--ignore-missing-stub", "--allowlist", allowed, "--ignore-unused-allowlist")
    done = check("mypy.stubtest", "leat", "--mypy-config-file", ROOT / "pyproject.toml", *options)
    assert done.returncode == 0, done.stdout + done.stderr


def pyright(check, folder, *args):
    """Its report. The folder's settings say which Python's packages it sees."""
    (folder / "pyrightconfig.json").write_text(
        json.dumps({"pythonVersion": "3.9", "typeCheckingMode": "strict", "extraPaths": [str(BUILD / "python")]})
    )
    done = check("basedpyright", "--outputjson", "--pythonpath", sys.executable, *args)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_pyright_takes_the_program_and_finds_the_mistakes(check, tmp_path):
    for name in ("typed.py", "typed_wrong.py"):
        (tmp_path / name).write_text((PROGRAMS / name).read_text())
    report = pyright(check, tmp_path, "-p", tmp_path)["generalDiagnostics"]
    errors = {(Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in report if d["severity"] == "error"}
    wrong = {("typed_wrong.py", line) for line in marked(PROGRAMS / "typed_wrong.py")}
    assert errors == wrong, json.dumps(report, indent=1)


def test_every_public_name_has_a_known_type(check, tmp_path):
    report = pyright(check, tmp_path, "--verifytypes", "leat", "--ignoreexternal")
    symbols = report["typeCompleteness"]["symbols"]
    unknown = [
        s["name"]
        for s in symbols
        if s["isExported"] and (not s["isTypeKnown"] or s["isTypeAmbiguous"]) and not s["name"].startswith(INSIDE)
    ]
    assert len(symbols) > 200
    assert unknown == []


def test_settings_for_checkers_are_the_librarys_table(leat):
    """tools/settings.py --write puts them right after a change of the table in C."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import settings
    finally:
        sys.path.remove(str(ROOT / "tools"))

    def code(text):
        return re.sub(r"  # .*", "", text)

    assert code((ROOT / "python" / "leat" / "_settings.py").read_text()) == code(settings.text())


def public(leat):
    """(name, object) of all that `leat` offers, with methods and properties."""
    for name in dir(leat):
        value = getattr(leat, name)
        if name == "errors":
            for kind in vars(value).values():
                if inspect.isclass(kind) and issubclass(kind, leat.Error):
                    yield f"errors.{kind.__name__}", kind
        elif name != "__version__":
            yield name, value
        made = [value] if inspect.isclass(value) else []
        if inspect.isfunction(value) and value.__module__ == "leat.fields":
            made = [type(value(*["f"] * ("field" in inspect.signature(value).parameters)))]
        if name == "Dataset":
            made += [leat.dataset.Picture, leat.dataset.Sample, leat.dataset.FieldInfo]
        if name == "Loader":
            made += [leat.loader.Ragged, leat.loader.RaggedTensors]
        for kind in made:
            yield kind.__name__, kind
            for method, function in inspect.getmembers(kind):
                maker = getattr(function, "fget", function)
                if not method.startswith("_") and str(getattr(maker, "__module__", "")).startswith("leat"):
                    yield f"{kind.__name__}.{method}", function


def test_everything_public_is_documented(leat):
    names = dict(public(leat))
    assert {"Loader.seek", "Image.invert", "Picture.shape", "errors.BusyError", "plan"} <= names.keys()
    bare = [n for n, v in names.items() if not inspect.getdoc(v)]
    own = [n for n, v in names.items() if inspect.isclass(v) and not v.__dict__.get("__doc__")]
    assert bare + own == []


def test_nothing_private_leaks(leat, run_python):
    assert all(not name.startswith("_") or name == "__version__" for name in dir(leat))
    assert set(leat.__all__) <= set(dir(leat))
    shown = run_python("import leat\nfrom leat import *\nprint(sorted(n for n in globals() if n[0] != '_'))")
    assert shown.returncode == 0, shown.stderr
    builtin = {"array", "bytes", "errors", "float", "int", "json", "open"}
    assert set(json.loads(shown.stdout.replace("'", '"'))) == {"leat", *leat.__all__} - {"__version__"} - builtin


def test_help_reads_well(run_python):
    code = "import leat, pydoc\nfor o in (leat, leat.Loader, leat.image('jpg').resize): print(pydoc.plain(pydoc.render_doc(o)))"
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    for words in (
        "Outputs, for `fields`: image",
        "class Loader(",
        "fields, version=None, batch_size=None",
        "batch_size: ",
        "resize(size: 'Size', limit: 'Whole' = 0) -> 'Image'",
        "the aspect ratio stays",
    ):
        assert words in done.stdout, words


def test_annotations_are_those_of_python_3_9():
    """Under Python 3.9 a union of two types can be written in an annotation and nowhere else."""
    for path in (ROOT / "python" / "leat").glob("*.py"):
        text = path.read_text()
        if re.search(r"-> ", text):
            assert "from __future__ import annotations" in text, path.name
        for line in text.splitlines():
            assert not re.match(r"[A-Za-z_]+ = .*\bNone \|.*|[A-Za-z_]+ = .*\| None\b", line), f"{path.name}: {line}"


def test_marker_of_typed_packages_is_installed(leat):
    folder = Path(leat.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_core.pyi").exists()


def test_help_lists_every_argument_of_a_loader_in_one_column(leat):
    """help() shows the docstring as inspect cleans it."""
    lines = inspect.cleandoc(leat.Loader.__doc__).split("\n")
    listed = [line for line in lines if re.match(r"\s*[a-z_]+: ", line)]
    assert {len(line) - len(line.lstrip()) for line in listed} == {4}
    assert {line.strip().split(":")[0] for line in listed} == set(inspect.signature(leat.Loader).parameters)
