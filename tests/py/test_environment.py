"""LEAT_* variables: what is wrong with one is said by the process that loads, at once; a typo is named."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KNOWN = (ROOT / "src" / "base" / "environment.c").read_text()

WRONG = {
    "LEAT_RAM": "1xb",
    "LEAT_THREADS": "many",
    "LEAT_CACHE": "lots",
    "LEAT_CACHE_DIR": "relative",
    "LEAT_LINGER": "soon",
    "LEAT_AGENT": "/nowhere/leat",
    "LEAT_SCOPE": "x" * 300,
    "LEAT_RUNTIME_DIR": "relative",
    "LEAT_LOG": "loud",
    "LEAT_CONFIG": "/nowhere/config",
    "LEAT_CA_BUNDLE": "/nowhere/ca.pem",
    "LEAT_METRICS": "everywhere",
    "LEAT_NO_SIGN_REQUEST": "perhaps",
    "LEAT_ADDRESSING": "street",
}


def open_blobs(lt, blobs):
    return lt.Loader(blobs.url, fields={"i": lt.index()}, batch_size=2, as_numpy=True)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_variable_is_an_error_of_the_loader_at_once(lt, blobs, runtime, monkeypatch, name):
    monkeypatch.setenv(name, WRONG[name])
    with pytest.raises(lt.errors.InvalidError) as error:
        open_blobs(lt, blobs)
    text = str(error.value)
    assert name in text or (name == "LEAT_SCOPE" and "scope" in text)
    assert len(WRONG[name]) > 60 or WRONG[name] in text
    assert not runtime.agents()


def test_a_wrong_variable_is_noticed_beside_an_agent_that_runs(lt, blobs, monkeypatch):
    with open_blobs(lt, blobs):
        monkeypatch.setenv("LEAT_RAM", "1xb")
        with pytest.raises(lt.errors.InvalidError, match="LEAT_RAM"):
            open_blobs(lt, blobs)


def test_all_wrong_variables_are_named_beside_wrong_settings(lt, blobs, monkeypatch):
    monkeypatch.setenv("LEAT_RAM", "1xb")
    monkeypatch.setenv("LEAT_THREADS", "many")
    with pytest.raises(lt.errors.InvalidError, match=r"(?s)LEAT_RAM.*LEAT_THREADS|LEAT_THREADS.*LEAT_RAM"):
        open_blobs(lt, blobs)


def test_opening_and_writing_a_dataset_notice_them_too(leat, tmp_path, monkeypatch):
    monkeypatch.setenv("LEAT_NO_SIGN_REQUEST", "perhaps")
    with pytest.raises(leat.errors.InvalidError, match="LEAT_NO_SIGN_REQUEST"):
        leat.open(tmp_path)
    with pytest.raises(leat.errors.InvalidError, match="LEAT_NO_SIGN_REQUEST"):
        leat.Writer(tmp_path / "ds", {"a": "int"})


def test_what_an_agent_says_of_its_config_file_reaches_the_loader(lt, blobs, tmp_path, monkeypatch):
    config = tmp_path / "config"
    config.write_text("[agent]\nram = 1xb\n")
    monkeypatch.setenv("LEAT_CONFIG", str(config))
    with pytest.raises(lt.Error, match=r"line 2: ram.*1xb"):
        open_blobs(lt, blobs)


def test_a_typo_is_a_warning_once_that_names_the_right_one(run_python, runtime, blobs, leat_bin):
    code = """
import logging, sys, leat
logging.basicConfig(format="%(name)s: %(message)s")
for _ in range(2):
    leat.Loader(sys.argv[1], fields={"i": leat.index()}, batch_size=2, as_numpy=True).close()
"""
    env = {"LEAT_RAMM": "2gb", "LEAT_AGENT": str(leat_bin), "LEAT_LINGER": "0s", "LEAT_RUNTIME_DIR": runtime.folder}
    done = run_python(code, blobs.url, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "leat: the environment has LEAT_RAMM, which nothing reads: did you mean 'LEAT_RAM'?\n"


def test_commands_warn_of_a_typo(run_leat, tmp_path):
    done = run_leat("ls", tmp_path, env={"LEAT_TIMEOUTS": "1s"}, status=0)
    assert "LEAT_TIMEOUTS, which nothing reads: did you mean 'LEAT_TIMEOUT'?" in done.stderr
    assert run_leat("ls", tmp_path, status=0).stderr == ""


def test_the_table_has_every_variable_that_something_reads(run_leat):
    """Options of all commands, and what the sources ask the environment for."""
    commands = re.findall(r"^  (\w+) ", run_leat("help", status=0).stdout.partition("exit status:")[0], re.M)
    read = set()
    for command in commands:
        read |= set(re.findall(r"\[[^\]]*(LEAT_\w+)\]", run_leat(command, "--help", status=0).stdout))
    assert {"LEAT_RAM", "LEAT_PART_SIZE", "LEAT_JOBS"} <= read
    for path in [*ROOT.glob("src/**/*.c"), *ROOT.glob("python/leat/*.[cp]*")]:
        read |= set(re.findall(r"(?:getenv|variable|environ\.get|environ)[(\[]\"(LEAT_\w+)", path.read_text()))
    assert "LEAT_CACHE_DIR" in read
    missing = sorted(name for name in read if f'{{"{name}"' not in KNOWN)
    assert not missing, f"{missing} are read, and have no row in src/base/environment.c"


def test_a_bucket_is_reached_by_leats_own_variables(leat, lt, serve, blobs, monkeypatch):
    """LEAT_ENDPOINT_URL and LEAT_NO_SIGN_REQUEST count for loaders and leat.open as they do for commands."""
    server = serve(Path(blobs.url).parent)
    monkeypatch.setenv("LEAT_ENDPOINT_URL", server.url)
    monkeypatch.setenv("LEAT_NO_SIGN_REQUEST", "1")
    monkeypatch.setenv("LEAT_REGION", "us-east-1")
    bucket = f"s3://{Path(blobs.url).name}"
    with leat.open(bucket) as ds:
        n = len(ds)
    with lt.Loader(bucket, fields={"i": lt.index()}, batch_size=1, as_numpy=True) as loader:
        assert loader.samples == n
        next(iter(loader))
