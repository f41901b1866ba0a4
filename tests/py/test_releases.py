"""Two releases on one machine: one agent for both where the protocol is the same, a VersionError at once where it is not."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, SANITIZE
from loading import SLOW, numbers, start_python
from releases import Release, make_release

pytestmark = pytest.mark.skipif(SANITIZE == "thread", reason="the interpreter cannot load a ThreadSanitizer extension")

OPEN = """
import json, sys, leat
try:
    loader = leat.Loader(sys.argv[1], batch_size=24, fields={"i": leat.index()}, as_numpy=True)
    iterator = iter(loader)
    first = next(iterator)[0].tolist()
except leat.Error as error:
    print(json.dumps({"error": type(error).__name__, "text": str(error)}), flush=True)
    sys.exit(0)
stats = loader.stats()
print(json.dumps({"agent": stats["agent_pid"], "socket": stats["socket"], "version": leat.__version__}), flush=True)
sys.stdin.readline()
rest = [i.tolist() for (i,) in iterator]
print(json.dumps({"seen": [first] + rest, "agent": loader.stats()["agent_pid"]}), flush=True)
"""


@pytest.fixture(scope="module")
def mine(leat_bin):
    release = Release(BUILD, None)
    release.agent = leat_bin
    return release


@pytest.fixture(scope="module")
def later(tmp_path_factory):
    """The next release, with the same protocol."""
    return make_release(BUILD, tmp_path_factory.mktemp("later") / "r", "9.8.7")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """A release with another protocol."""
    return make_release(BUILD, tmp_path_factory.mktemp("stranger") / "r", "10.0.0", protocol=77)


class Program:
    """A program of a release, waiting after its first batch."""

    def __init__(self, runtime, release, url, **env):
        self.process = start_python(runtime, OPEN, url, **{**release.env(), **env})
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.first = json.loads(line)

    def finish(self):
        out, stderr = self.process.communicate("go\n", timeout=60 * SLOW)
        assert self.process.returncode == 0, stderr
        return json.loads(out)


def test_version_is_the_releases_own(later, stranger):
    for release in (later, stranger):
        said = subprocess.run([release.agent, "--version"], capture_output=True, text=True, check=True)
        assert release.version in said.stdout


def test_releases_of_one_protocol_share_an_agent(lt, runtime, images, mine, later):
    expected = numbers(lt, images.url)
    runtime.wait_gone()
    one = Program(runtime, mine, images.url)
    two = Program(runtime, later, images.url)
    assert one.first["version"] != two.first["version"]
    assert one.first["agent"] == two.first["agent"] == runtime.agent()
    assert two.finish()["seen"] == expected
    assert one.finish()["seen"] == expected
    runtime.wait_gone()
    assert runtime.left_behind() == []


def test_release_of_another_protocol_has_an_agent_of_its_own(lt, runtime, images, mine, stranger):
    expected = numbers(lt, images.url)
    runtime.wait_gone()
    one = Program(runtime, mine, images.url)
    two = Program(runtime, stranger, images.url)
    assert one.first["agent"] != two.first["agent"]
    assert one.first["socket"] != two.first["socket"]
    assert two.finish()["seen"] == one.finish()["seen"] == expected


def test_agent_of_another_protocol_is_a_version_error(runtime, images, mine, stranger):
    for release, other in ((mine, stranger), (stranger, mine)):
        got = Program(runtime, release, images.url, LEAT_AGENT=str(other.agent)).first
        assert got.get("error") == "VersionError", got
        assert "protocol" in got["text"], got["text"]
    assert runtime.left_behind() == []


def install(path, release):
    """As pip does it: another file under the same name."""
    shutil.copy(release.agent, f"{path}.new")
    os.replace(f"{path}.new", path)


def test_upgrade_under_a_running_job_does_not_end_it(lt, runtime, images, mine, later, tmp_path):
    expected = numbers(lt, images.url)
    runtime.wait_gone()
    agent = tmp_path / "leat"
    install(agent, mine)
    program = Program(runtime, mine, images.url, LEAT_AGENT=str(agent))
    install(agent, later)
    runtime.kill_agents()
    done = program.finish()
    assert done["seen"] == expected
    assert done["agent"] != program.first["agent"], "an agent of the new release"


def test_upgrade_to_another_protocol_is_said_when_a_new_agent_is_needed(runtime, images, mine, stranger, tmp_path):
    agent = tmp_path / "leat"
    install(agent, mine)
    program = Program(runtime, mine, images.url, LEAT_AGENT=str(agent))
    install(agent, stranger)
    runtime.kill_agents()
    out, stderr = program.process.communicate("go\n", timeout=30 * SLOW)
    assert "VersionError" in stderr, (out, stderr)
    assert Path(program.first["socket"]).parent == Path(runtime.folder)
