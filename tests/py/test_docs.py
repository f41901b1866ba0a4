"""Every block of README, docs/ and the other pages runs, in its order, as a reader would type it.

tests/py/snippets.py says what is done with a block of which language, and how a page marks what cannot run here.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, ROOT
from snippets import Block, Sandbox, Syntax, blocks_of, commands_of, compare, loosely, make_shims, members_of

PAGES = sorted(p for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
WITH_BLOCKS = [p for p in PAGES if "```" in p.read_text()]
PREPARED = ROOT / "tests" / "py"

pytestmark = pytest.mark.python_only  # what the commands of the pages run in C, tests of the commands run too


@pytest.fixture(scope="module")
def shims(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bin")
    make_shims(folder)
    return folder


@pytest.fixture
def sandbox(runtime, leat_bin, serve, shims, tmp_path):
    """A folder with a bucket beside it, where the command, the package and the test environment are found."""
    folder = tmp_path / "here"
    (folder / "buckets").mkdir(parents=True)
    server = serve(folder / "buckets")
    path = [str(shims), str(leat_bin.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {
        **runtime.env,
        **server.s3_env(),
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join(path),
        "PYTHONPATH": os.pathsep.join([str(BUILD / "python"), str(PREPARED)]),
        "BUCKETS": str(folder / "buckets"),
        "SOURCE_TREE": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    box = Sandbox(folder, env, Syntax(ROOT))
    yield box
    box.close()


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_block_of_the_page_runs(page, sandbox):
    blocks = blocks_of(page, ROOT)
    for bucket in set(re.findall(r"s3://([a-z][a-z0-9-]+)", page.read_text())):
        (sandbox.folder / "buckets" / bucket).mkdir(exist_ok=True)
    for block in blocks:
        sandbox.run(block)


# What a page says of the command, run or not.


@pytest.fixture(scope="module")
def help_of(leat_bin):
    """help_of("pack") -> what `leat pack --help` prints, or None where there is no such command."""
    seen = {}

    def find(command):
        if command not in seen:
            done = subprocess.run([leat_bin, command, "--help"], capture_output=True, text=True)
            seen[command] = done.stdout if done.returncode == 0 else None
        return seen[command]

    return find


def calls_in(text):
    """[(command, [options])] of `leat` in a line of shell."""
    for part in re.split(r"\||;|&&|\$\(", text):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            words = part.split()
        while words and re.fullmatch(r"\w+=.*|sudo|srun|nohup|time|!", words[0]):
            words.pop(0)
        if len(words) > 1 and words[0] == "leat" and re.fullmatch(r"[a-z]+", words[1]):
            yield words[1], [w.split("=")[0] for w in words[2:] if re.match(r"--\w", w)]


def calls_of(page):
    """(line, command, options) of everything that the page says of the command."""
    text = page.read_text()
    for block in blocks_of(page, ROOT):
        lines = []
        if block.lang == "sh":
            lines = [block.text]
        elif block.lang == "console":
            lines = [command for command, _ in commands_of(block)]
        for line in "\n".join(lines).replace("\\\n", " ").splitlines():
            for command, options in calls_in(line):
                yield block.line, command, options
    prose = re.sub(r"^ *```.*?^ *```$", lambda m: "\n" * m.group().count("\n"), text, flags=re.M | re.S)
    for span in re.finditer(r"`(leat [a-z][^`]*)`", prose):
        for command, options in calls_in(span[1].replace("\n", " ")):
            yield prose.count("\n", 0, span.start()) + 1, command, options


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_and_options_that_a_page_names_exist(page, help_of):
    wrong = []
    for line, command, options in calls_of(page):
        text = help_of(command)
        if text is None:
            wrong.append(f"{page.relative_to(ROOT)}:{line}: there is no `leat {command}`")
            continue
        wrong += [
            f"{page.relative_to(ROOT)}:{line}: `leat {command}` has no {option}"
            for option in options
            if not re.search(rf"{re.escape(option)}(?![\w-])", text)
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_targets_of_make_that_a_page_names_exist(page):
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = re.findall(
        r"`make ([a-z][a-z0-9-]+)(?: [A-Z_]+=[^`]*)?`|^make ([a-z0-9-]+) *(?:#.*)?$", page.read_text(), re.M
    )
    named = {one or other for one, other in named}
    assert named <= targets, sorted(named - targets)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_names_of_the_package_that_a_page_names_exist(page, leat):
    wrong = []
    for name in sorted(set(re.findall(r"`leat\.([A-Za-z_][\w.]*\w)(?=[`(\[])", page.read_text()))):
        found = leat
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is None:
            wrong.append(f"leat.{name}")
    assert not wrong, f"{page.relative_to(ROOT)} names {wrong}"


def test_variables_and_constants_that_pages_name_exist():
    """LEAT_RAM, LEAT_INVALID, …: each stands in a source, too."""
    known = set(re.findall(r"\bLEAT_\w+", (ROOT / "Makefile").read_text()))
    for folder in ("src", "include", "python", "tools", "tests/py"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in (".c", ".h", ".py", ".map", ".build", ""):
                known |= set(re.findall(r"\bLEAT_\w+", path.read_text(errors="replace")))
    wrong = []
    for page in PAGES:
        named = set(re.findall(r"\bLEAT_[A-Z0-9_]*[A-Z0-9]\b(?!\*)", page.read_text()))
        wrong += [f"{page.relative_to(ROOT)}: {name}" for name in sorted(named - known)]
    assert not wrong, wrong


# The runner itself: what is wrong in a page must fail.


@pytest.fixture
def page(tmp_path):
    def write(text):
        path = tmp_path / "page.md"
        path.write_text(text)
        return blocks_of(path, tmp_path)

    return write


WRONG = [
    (
        "<!-- exit: 1 -->\n```console\n$ echo this >&2; exit 1\nthat\n```\n",
        "this was printed",
    ),  # a message of a failure
    ("```sh\ntrue\nfalse\ntrue\n```\n", "exit status 1"),
    ("```sh\nfalse | true\n```\n", "exit status 1"),
    ("<!-- exit: 3 -->\n```sh\nexit 2\n```\n", "not 3"),
    ("```python\nx = 1\n\nraise ValueError('no')\n```\n", 'page.md", line 4'),
    ("```python\nimport os; os._exit(0)\n```\n", "it ended"),
    ("```console\n$ echo one\ntwo\n```\n", "this was printed"),
    ("```console\n$ echo one; echo two\none\n```\n", "this was printed"),
    ("```sh\necho one\n```\n\n<!-- output -->\n```text\nthree\n```\n", "this was printed"),
    ("<!-- not run: why -->\n```sh\nif true\n```\n", "syntax error"),
    ("<!-- not run: why -->\n```python\nif True\n```\n", "expected ':'"),
    ("<!-- file: x.yaml -->\n```yaml\na: [1\n```\n", "expected"),
    ("```json\n{'a': 1}\n```\n", "property name"),
    ("```toml\na = \n```\n", "Invalid value"),
    ("```c\nint x = ;\n```\n", "expected expression"),
    ("```text\nleat pack x y\n```\n", "text block"),
    ("```diff\n-x = = 1\n+x = 1\n```\n", "invalid syntax"),
]


def test_a_page_that_is_wrong_fails(page, sandbox):
    for text, why in WRONG:
        with pytest.raises(AssertionError) as caught:
            for block in page(text):
                sandbox.run(block)
        assert why in str(caught.value), text
        sandbox.close()


@pytest.mark.parametrize("text", ["```\nleat ls\n```\n", "```bash\nls\n```\n", "```sh\nls\n"])
def test_a_fence_without_a_known_language_or_end_is_refused(page, text):
    with pytest.raises(ValueError, match="fence"):
        page(text)


def test_a_page_is_one_story(page, sandbox):
    """Exports, files, names of Python and ports last to the end of the page, and what it started ends with it."""
    blocks = page(
        "<!-- hidden sh\necho hidden > a.txt\n-->\n"
        "```sh\nexport WORD='two words'\ncd /\nsleep 60 &\necho $! > ~/here/pid\n```\n"
        "```console\n$ cat a.txt; echo $WORD 8000 at 127.0.0.1:8123\nhidden\ntwo words 1 at 127.0.0.1:7\n```\n"
        "```python\nimport os\nword = os.environ['WORD']\n```\n"
        "<!-- file: sub/b.py -->\n```python\nprint('from a file')\n```\n"
        "```diff\n-word = nothing()\n+print(word, 12.5, '0123456789abcdef')\n```\n"
        "<!-- output -->\n```text\ntwo words 3 ffffffff…\n```\n"
        "```sh\npython sub/b.py --port 8123\n```\n"
    )
    for block in blocks:
        sandbox.run(block)
    assert sandbox.last == "from a file\n" and list(sandbox.ports) == ["8123"]
    (group,) = {group for group in sandbox.groups if int((sandbox.folder / "pid").read_text()) in members_of(group)}
    sandbox.close()
    assert not list(members_of(group))


def test_output_is_compared_loosely_and_not_at_all_differently():
    block = Block("page", 1, "console", "")
    compare(block, "96 samples in 1 chunk, 1.2 MiB\nid 5e9d0123…\n", "7 samples in 22 chunk, 123 kB\nid 0123456789\n")
    compare(block, "first\n…\nlast", "first\n1\n2\n\nlast\n")
    for other in ("7 samples in 2 chunk\n", "x samples in 22 chunk, 123 kB\n", ""):
        with pytest.raises(AssertionError):
            compare(block, "96 samples in 1 chunk, 1.2 MiB\n", other)
    assert re.fullmatch(loosely("a  b 5 %"), "a b 17.5 %\n")


# Manifests and other files of examples/.


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/kubernetes/*.yaml")), ids=lambda p: p.name)
def test_a_manifest_is_one_that_kubernetes_could_take(path, help_of):
    yaml = pytest.importorskip("yaml")
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for document in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(document, "1.33", strict=True)  # its published schema, and no field beside it
        assert re.fullmatch(r"v1|[a-z0-9.]+/v1", document["apiVersion"]), document["apiVersion"]
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", document["metadata"]["name"])
        spec = document.get("spec", {})
        template = spec.get("template", {}).get("spec")
        if document["kind"] in ("Job", "DaemonSet", "Deployment", "StatefulSet"):
            assert template["containers"], "a workload without containers"
            check_pod(template)
            for container in template["containers"] + template.get("initContainers", []):
                for command, options in calls_in(shlex.join(container["command"])):
                    assert all(option in help_of(command) for option in options), container["command"]
        if document["kind"] == "Job":
            assert template["restartPolicy"] in ("Never", "OnFailure")
        if document["kind"] == "Service":
            assert all(0 < port["port"] < 65536 for port in spec["ports"])


def test_every_page_is_in_the_index():
    """docs/README.md has a line for every page, and the README links it."""
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [str(p.relative_to(ROOT / "docs")) for p in ROOT.glob("docs/**/*.md")]
    missing = [name for name in pages if name != "README.md" and f"]({name})" not in index]
    assert not missing, f"docs/README.md has no line for {missing}"
    assert "(docs/README.md)" in (ROOT / "README.md").read_text()


def check_pod(pod):
    """Volumes that are mounted exist, names are unique, quantities have a unit that Kubernetes knows."""
    volumes = {v["name"] for v in pod.get("volumes", [])}
    containers = pod["containers"] + pod.get("initContainers", [])
    names = [c["name"] for c in containers]
    assert len(set(names)) == len(names)
    for container in containers:
        assert container["image"]
        assert {m["name"] for m in container.get("volumeMounts", [])} <= volumes
        for kind in ("requests", "limits"):
            for name, value in container.get("resources", {}).get(kind, {}).items():
                assert re.fullmatch(r"\d+(\.\d+)?(m|[KMGT]i?)?", str(value)), (name, value)
        for variable in container.get("env", []):
            assert set(variable) == {"name", "value"} or set(variable) == {"name", "valueFrom"}, variable
            assert isinstance(variable.get("value", ""), str), f"{variable}: numbers need quotes"
        for port in container.get("ports", []):
            assert 0 < port["containerPort"] < 65536


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/**/*.json")), ids=lambda p: str(p.relative_to(ROOT)))
def test_every_json_file_of_the_examples_parses(path):
    json.loads(path.read_text())
