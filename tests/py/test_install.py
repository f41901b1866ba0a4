"""What `make install` and `pip install .` put where, and that it works there."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()

pytestmark = pytest.mark.python_only

PROGRAM = """
#include <leat/leat.h>
#include <stdio.h>
int main(void) { return printf("%s %s", leat_version(), leat_status_name(LEAT_BUSY)) < 0; }
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that `make install` filled, as if it were /."""
    if not (ROOT / "build" / "release" / "build.ninja").exists():
        pytest.skip("there is no build/release")
    root = tmp_path_factory.mktemp("installed")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--no-print-directory", "install", f"DESTDIR={root}"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def test_library_headers_command_and_manual_pages_are_installed(installed):
    files = {str(p.relative_to(installed / "usr/local")) for p in installed.rglob("*") if not p.is_dir()}
    names = {Path(f).name for f in files}
    assert {"libleat.so", "libleat.so.1", "leat.pc"} <= names
    assert {"include/leat/leat.h", "include/leat/error.h", "bin/leat"} <= files
    assert {"share/man/man1/leat.1", "share/man/man1/leat-help.1"} <= files
    assert not any("python" in f or f.endswith(".a") for f in files)
    public = {f"include/leat/{p.name}" for p in (ROOT / "include" / "leat").glob("*.h")}
    assert {f for f in files if f.startswith("include/")} == public


def test_a_program_builds_with_pkg_config_and_runs(installed, tmp_path):
    library = next(installed.rglob("libleat.so")).parent
    env = {**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(installed)}

    def pkg_config(*args):
        return subprocess.run(["pkg-config", *args, "leat"], env=env, check=True, capture_output=True, text=True).stdout

    assert pkg_config("--modversion").strip() == VERSION
    (tmp_path / "x.c").write_text(PROGRAM)
    flags = pkg_config("--cflags", "--libs").split()
    subprocess.run(["gcc", "-Wall", "-Werror", tmp_path / "x.c", *flags, "-o", tmp_path / "x"], check=True)
    needed = subprocess.run(["readelf", "-d", tmp_path / "x"], check=True, capture_output=True, text=True).stdout
    assert "[libleat.so.1]" in needed
    done = subprocess.run(
        [tmp_path / "x"], env={"LD_LIBRARY_PATH": str(library)}, check=True, capture_output=True, text=True
    )
    assert done.stdout == f"{VERSION} busy"


def test_the_installed_command_runs(installed):
    done = subprocess.run([installed / "usr/local/bin/leat", "--version"], check=True, capture_output=True, text=True)
    assert done.stdout == f"leat {VERSION}\n"


def test_what_a_training_loads_has_no_http_server(installed, leat_build):
    for file in (next(installed.rglob("libleat.so.1")), leat_build / "python" / "leat" / "_core.abi3.so"):
        names = subprocess.run(["nm", "-D", file], check=True, capture_output=True, text=True).stdout
        assert "curl_multi_init" in names
        assert "MHD_" not in names


@pytest.mark.long  # compiles everything once more
@pytest.mark.timeout(1800)
def test_the_wheel_has_the_package_and_the_command_of_the_same_version(tmp_path):
    bin_folder = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    options = ["--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", str(tmp_path)]
    done = subprocess.run([*pip, "wheel", *options, str(ROOT)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"leat-{VERSION}-cp")
    names = zipfile.ZipFile(wheel).namelist()
    assert "leat/__init__.py" in names
    assert any(name.startswith("leat/_core.") for name in names)
    assert f"leat-{VERSION}.data/scripts/leat" in names
    assert not any(name.endswith((".h", ".1", ".pc", ".a")) for name in names)
    target = tmp_path / "target"
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)], check=True)
    code = "import leat; print(leat.__version__, leat.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(target)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"{VERSION} {target}/leat/__init__.py\n", done.stderr


@pytest.mark.long  # compiles everything once more
@pytest.mark.timeout(1800)
def test_a_folder_installed_as_it_is_loads_batches_and_has_the_command(tmp_path):
    """pip install -e of a clone, into an environment that borrows the packages of this one."""
    clone = tmp_path / "clone"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name, follow_symlinks=False)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    python = tmp_path / "env/bin/python"
    lent = next((tmp_path / "env").glob("lib/python3.*/site-packages")) / "lent.pth"
    lent.write_text(f"{sysconfig.get_path('purelib')}\n")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    env.pop("PYTHONPATH", None)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "--quiet"]
    done = subprocess.run(
        [*pip, "--no-build-isolation", "--no-deps", "--editable", str(clone)], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr

    def run(*words):
        done = subprocess.run([python, *words], env=env, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    (tmp_path / "raw/a").mkdir(parents=True)
    for i in range(8):
        (tmp_path / f"raw/a/{i}.bin").write_text(str(i))
    assert run("-m", "leat", "--version") == f"leat {VERSION}\n"
    run("-m", "leat", "pack", "--quiet", "raw", "packed")
    code = 'import leat; print(sorted(int(i) for (b,) in leat.Loader("packed", batch_size=4, as_numpy=True, linger=0, '
    code += 'fields={"i": leat.index()}) for i in b), leat.__file__)'
    assert run("-c", code) == f"[0, 1, 2, 3, 4, 5, 6, 7] {clone}/python/leat/__init__.py\n"
