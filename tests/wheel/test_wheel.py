"""The wheel in clean environments: nobody's account, no compiler, no packages, several Pythons and Debian releases."""

import json
import os
import re
import shutil
import subprocess
import time
import zipfile
from pathlib import Path

import pytest
from PIL import Image
from places import NOBODY, RELEASES, ROOT, numpy_for, open_place

VERSION = (ROOT / "VERSION").read_text().strip()
BUILD = Path(os.environ.get("LEAT_BUILD", ROOT / "build" / "release"))

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making roots and becoming nobody wants root")


@pytest.fixture(scope="session")
def wheel():
    (found,) = (ROOT / "dist").glob(f"leat-{VERSION}-cp39-abi3-manylinux_*.whl")
    return found


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """Two classes that can be told apart, in every format that the wheel has inside."""
    folder = tmp_path_factory.mktemp("pictures")
    for name, colour in (("dark", 40), ("light", 200)):
        (folder / name).mkdir()
        for i in range(12):
            picture = Image.new("RGB", (40 + i, 30), (colour, colour - i, colour + i))
            picture.save(folder / name / f"{i}.{('jpg', 'png', 'webp')[i % 3]}")
    return folder


@pytest.fixture(scope="session", params=["here", *RELEASES])
def place(request, wheel):
    """A place with the wheel installed in an environment of its own, and how long that took."""
    with open_place(request.param) as place:
        packages = place.home / "packages"
        packages.mkdir()
        shutil.copy(wheel, packages)
        shutil.copy(numpy_for(place), packages)
        began = time.monotonic()
        place.check("python3", "-m", "venv", "env")
        place.check("env/bin/pip", "install", "--quiet", "--no-index", "--find-links", "packages", "leat")
        place.installed_s = time.monotonic() - began
        yield place


@pytest.fixture(scope="session")
def bucket(tmp_path_factory):
    """A bucket over HTTPS with a certificate that nobody knows: (settings, its CA file, its folder)."""
    folder = tmp_path_factory.mktemp("bucket")
    (folder / "data").mkdir()
    command = [BUILD / "src/cli/leat", "serve", folder, "--tls-self-signed", "--anonymous"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}) as process:
        try:
            url = re.search(r"https://\S+", process.stdout.readline()).group()
            ca = process.stdout.readline().strip().partition("=")[2]
            yield {"AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1"}, Path(ca), folder
        finally:
            process.terminate()


def test_the_wheel_is_small_and_has_licences_and_each_program_once(wheel):
    assert wheel.stat().st_size <= 8_000_000
    names = zipfile.ZipFile(wheel).namelist()
    programs = [name for name in names if zipfile.ZipFile(wheel).read(name)[:4] == b"\x7fELF"]
    assert sorted(programs) == [f"leat-{VERSION}.data/scripts/leat", "leat/_core.abi3.so"]
    licences = "\n".join(name for name in names if "/licenses/" in name)
    for library in (BUILD.parent / "wheel/prefix/built").glob("*.version"):
        assert f"/{library.read_text().strip()}.txt" in licences
    metadata = zipfile.ZipFile(wheel).read(f"leat-{VERSION}.dist-info/METADATA").decode()
    assert "Requires-Dist: numpy" in metadata


def test_it_loads_nothing_but_the_c_library(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        for name in (f"leat-{VERSION}.data/scripts/leat", "leat/_core.abi3.so"):
            out = subprocess.run(
                ["readelf", "-d", archive.extract(name, tmp_path)], capture_output=True, text=True
            ).stdout
            needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", out))
            assert needed <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}
            assert "PATH" not in out


def test_the_command_is_on_the_path_and_the_program_itself(place):
    assert place.check("leat", "--version") == f"leat {VERSION}\n"
    assert place.check("python", "-m", "leat", "--version") == f"leat {VERSION}\n"
    assert (place.home / "env/bin/leat").read_bytes()[:4] == b"\x7fELF"
    assert not (place.root and (place.root / "usr/bin/gcc").exists())


def test_a_stranger_gets_a_first_batch_within_a_minute(place, pictures):
    """From nothing to the first batch: the environment, the wheel, packing, loading."""
    began = time.monotonic()
    place.check("leat", "pack", place.give(pictures, "pictures"), "packed")
    result = json.loads(place.check("python", place.give(Path(__file__).parent / "train.py"), place.inside / "packed"))
    assert result["first_s"] + time.monotonic() - began + place.installed_s <= 60
    assert len(result["losses"]) == 9
    assert str(place.inside) in result["leat"]


def test_a_training_over_https_learns(place, pictures, bucket):
    settings, ca, folder = bucket
    secure = {**settings, "SSL_CERT_FILE": place.give(ca, "ca.pem")}
    shutil.rmtree(folder / "data")
    (folder / "data").mkdir()
    place.check("leat", "pack", place.give(pictures, "pictures"), "s3://data/set", env=secure)
    out = place.check("python", place.give(Path(__file__).parent / "train.py"), "s3://data/set", env=secure)
    losses = json.loads(out)["losses"]
    assert sum(losses[-3:]) < 0.5 * sum(losses[:1]) * 3


def test_a_training_with_torch_learns(wheel, pictures):
    """Only this machine has one: its packages are lent to an environment of the same Python."""
    packages = next(iter((ROOT / ".venv/lib").glob("python3.*/site-packages")))
    with open_place("here") as place:
        if place.check("python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])").strip() not in str(
            packages
        ):
            pytest.skip("this machine's own Python is another one than that of .venv")
        place.check("python3", "-m", "venv", "env")
        place.check("env/bin/pip", "install", "--quiet", "--no-index", "--no-deps", place.give(wheel))
        (next(place.home.glob("env/lib/python3.*/site-packages")) / "lent.pth").write_text(f"{packages}\n")
        place.check("leat", "pack", place.give(pictures, "pictures"), "packed")
        result = json.loads(
            place.check("python", place.give(Path(__file__).parent / "train.py"), place.inside / "packed")
        )
        assert result["library"] == "torch"
        assert result["losses"][-1] < result["losses"][0]


WHERE = {
    "RedHat": "/etc/pki/tls/certs/ca-bundle.crt",
    "SUSE": "/var/lib/ca-certificates/ca-bundle.pem",
    "Alpine": "/etc/ssl/cert.pem",
    "folder": "/etc/ssl/certs/ca.pem",
}


@pytest.mark.parametrize("who", [*WHERE, "nobody"])
def test_certificates_are_found_where_distributions_keep_them(place, bucket, who):
    if not place.root:
        pytest.skip("this machine's own certificates stay as they are")
    settings, ca, folder = bucket
    (folder / "data/key").write_text("found")
    hide = ""
    for path in ("/etc/ssl", "/etc/pki", "/var/lib/ca-certificates"):
        hide += f'if [ -d "$ROOT{path}" ]; then mount -t tmpfs none "$ROOT{path}"; fi; '
    if who in WHERE:
        where = WHERE[who]
        # A folder that is not there has to be made for the mount; it stays empty.
        top = "/".join(where.split("/")[: 4 if where.startswith("/var") else 3])
        hide += f'mkdir -p "$ROOT{top}"; mount -t tmpfs none "$ROOT{top}"; mkdir -p "$ROOT{os.path.dirname(where)}"; '
        hide += f'cp {ca} "$ROOT{where}"; chmod -R a+rX "$ROOT{top}"; '
        if who == "folder":
            hide += f'openssl rehash "$ROOT{os.path.dirname(where)}"; '
    done = place.run("leat", "cat", "s3://data/key", env=settings, setup=hide)
    if who in WHERE:
        assert (done.stdout, done.returncode) == ("found", 0), done.stderr
    else:
        assert done.returncode == 4
        assert done.stderr.count("\n") == 1
        assert "no CA certificates on this machine" in done.stderr and "SSL_CERT_FILE" in done.stderr


def test_a_c_library_that_is_too_old_is_refused_by_pip(place, wheel):
    """PEP 600's own way for a machine to say what it can run."""
    (place.home / "old").mkdir(exist_ok=True)
    (place.home / "old/_manylinux.py").write_text("def manylinux_compatible(a, b, c): return (a, b) < (2, 28)\n")
    pip = ["env/bin/pip", "install", "--no-index", "--no-deps", "--target", "elsewhere"]
    done = place.run(*pip, place.give(wheel), env={"PYTHONPATH": place.inside / "old"})
    assert done.returncode == 1
    assert "is not a supported wheel on this platform" in done.stdout + done.stderr


def test_a_c_library_that_is_too_old_is_said_in_one_line(place):
    """As if a function were of a glibc to come: the name of its version is changed in a copy."""
    package = next(place.home.glob("env/lib/python3.*/site-packages/leat"))
    copy = place.home / "copied" / "leat"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(package, copy)
    code = (copy / "_core.abi3.so").read_bytes()
    assert b"GLIBC_2.28\0" in code
    (copy / "_core.abi3.so").write_bytes(code.replace(b"GLIBC_2.28\0", b"GLIBC_2.99\0"))
    done = place.run("env/bin/python", "-c", "import leat", env={"PYTHONPATH": place.inside / "copied"})
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: this machine's C library is too old for Leat") and "GLIBC_2.99" in last


def test_importing_takes_less_than_50_ms(place):
    """Of the processor, the best of several: how long it takes on a busy machine says nothing."""
    code = "import time; t = time.process_time(); import leat; print(time.process_time() - t)"
    place.check("python", "-c", code)  # writes the bytecode
    assert min(float(place.check("python", "-c", code)) for _ in range(9)) <= 0.05


def test_uninstalling_leaves_nothing(place):
    place.check("env/bin/pip", "uninstall", "--quiet", "--yes", "leat")
    left = [p for p in (place.home / "env").rglob("*leat*") if p.is_file()]
    assert left == []
    assert os.stat(place.home).st_uid == NOBODY
