"""The fenced blocks of a document, and a folder in which they run one after the other, as a reader would type them.

Every fence has a language, and the language says what is done with the block:

    sh                 run by bash, which stops at the first command that fails; exports last for the whole page
    console            lines with "$ " are commands, the lines after them what they print
    python             run by one interpreter for the whole page
    diff               the new side is run as Python, the old side must compile
    c json yaml toml   must compile, or parse
    text               anything else, and never a command

An HTML comment right before a fence changes that:

    <!-- not run: needs Slurm -->    only the syntax is checked, and that commands, options and targets exist
    <!-- file: train.py -->          saved under that name, for the blocks that follow; its syntax is checked
    <!-- output -->                  a text block: what the block before it prints
    <!-- exit: 2 -->                 a shell block that ends with this status

and a comment of its own prepares what the page takes for granted:

    <!-- hidden sh
    python -m docs_data pictures photos
    -->

Output is compared loosely: a number, with its unit, stands for any number, an id for any id, and "…" for anything. What
goes to standard error (warnings that a wait takes long, progress) is not compared, unless the block shows a failure.
"""

import ast
import contextlib
import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from loading import warm_python

BLOCK = re.compile(
    r"^<!-- hidden (?P<hidden>sh|python)\n(?P<prepare>.*?)^-->$"
    r"|^(?: *<!-- (?P<mark>[^\n]*?) -->\n)?(?P<indent> *)```(?P<lang>\w*)\n(?P<body>.*?)^(?P=indent)```$",
    re.M | re.S,
)
MARKS = re.compile(r"(?P<word>not run|file|exit): (?P<value>\S.*)|(?P<alone>output)$")
LANGUAGES = {"sh", "console", "python", "diff", "c", "json", "yaml", "toml", "text", "golden"}
PORT = re.compile(r"(?<=--port )\d{4,5}\b|(?<=127\.0\.0\.1:)\d{4,5}\b")
UNIT = r"(?: ?(?:%|[kKMGT]i?B(?:/s)?|B|µs|ms|min|s|h|x|×)(?![\w]))?"
LOOSE = re.compile(
    rf"(?P<id>\b[0-9a-f]{{8,}}\b…?)|(?P<any>…)|(?P<number>[-−]?\d[\d,.]*(?<=\d){UNIT})|(?P<space>\s+)|(?P<other>.)"
)


@dataclass
class Block:
    page: str
    line: int  # of its first line of text
    lang: str
    text: str
    mark: str = ""  # "not run", "file", "exit", "output" or ""
    value: str = ""
    hidden: bool = False

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def blocks_of(path, root):
    """The blocks of a page in their order; ValueError where one is not marked as it should be."""
    text, page = path.read_text(), str(path.relative_to(root))
    found = []
    for match in BLOCK.finditer(text):
        body = match["prepare"] if match["hidden"] else match["body"]
        line = text.count("\n", 0, match.start("prepare" if match["hidden"] else "body")) + 1
        if match["hidden"]:
            found.append(Block(page, line, match["hidden"], body, hidden=True))
            continue
        indent = len(match["indent"])
        block = Block(page, line, match["lang"], "".join(row[indent:] or "\n" for row in body.splitlines(True)))
        if block.lang not in LANGUAGES:
            raise ValueError(f"{block.place}: a fence with the language '{block.lang}'; one of {sorted(LANGUAGES)}")
        if mark := MARKS.fullmatch(match["mark"] or ""):
            block.mark, block.value = mark["word"] or mark["alone"], mark["value"] or ""
        found.append(block)
    fences = len(re.findall(r"^ *```", text, re.M))
    shown = sum(not block.hidden for block in found)
    if fences != 2 * shown:
        raise ValueError(f"{page}: {fences} fences, but {shown} blocks: one is not closed, or closed elsewhere")
    return found


def loosely(expected):
    """A regular expression that fits what such a command prints."""
    lines = []
    for line in expected.strip("\n").splitlines():
        if line.strip() == "…":
            lines.append(r"(?:[^\n]*\n)*?")
            continue
        row = ""
        for part in LOOSE.finditer(line.rstrip()):
            if part["id"]:
                row += r"[0-9a-f]+"
            elif part["any"]:
                row += r"[^\n]*"
            elif part["number"]:
                row += rf"[-−]?\d[\d,.]*{UNIT}"
            elif part["space"]:
                row += r"[^\S\n]+"
            else:
                row += re.escape(part["other"])
        lines.append(row + r"[^\S\n]*\n")
    return "".join(lines)


def compare(block, expected, printed):
    if not expected.strip():
        return
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[^\n]*\r", "", printed).strip("\n") + "\n"
    assert re.fullmatch(loosely(expected), text), f"{block.place} shows\n{expected}\nbut this was printed\n{text}"


def commands_of(block):
    """[(command, expected output)] of a console block."""
    pairs = []
    for line in block.text.splitlines(True):
        if line.startswith("$ "):
            pairs.append([line[2:], ""])
        elif pairs and not pairs[-1][1] and pairs[-1][0].endswith("\\\n"):
            pairs[-1][0] += line.removeprefix("> ")
        else:
            assert pairs, f"{block.place}: a console block begins with a command after '$ '"
            pairs[-1][1] += line
    return pairs


def sides_of(block):
    """(old, new) of a diff block."""
    rows = block.text.splitlines(True)
    rows = [row if row.strip() else " " + row for row in rows if not re.match(r"(---|\+\+\+|@@)", row)]
    return tuple("".join(row[1:] for row in rows if row[0] in keep) for keep in ("- ", "+ "))


class Syntax:
    """Checks what is not run."""

    def __init__(self, root):
        self.root = root

    def check(self, block):
        check = getattr(self, block.lang, None)
        if check:
            check(block, block.text)

    def sh(self, block, text):
        done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
        assert done.returncode == 0, f"{block.place}: {done.stderr}"

    def console(self, block, _):
        for command, _ in commands_of(block):
            self.sh(block, command)

    def python(self, block, text):
        try:
            ast.parse("\n" * (block.line - 1) + text, block.page)
        except SyntaxError as error:
            raise AssertionError(f"{block.place}: {error}") from None

    def diff(self, block, _):
        for side in sides_of(block):
            self.python(block, side)

    def json(self, block, text):
        try:
            json.loads(text)
        except ValueError as error:
            raise AssertionError(f"{block.place}: {error}") from None

    def yaml(self, block, text):
        import yaml

        try:
            list(yaml.safe_load_all(text))
        except yaml.YAMLError as error:
            raise AssertionError(f"{block.place}: {error}") from None

    def toml(self, block, text):
        import tomllib

        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise AssertionError(f"{block.place}: {error}") from None

    def c(self, block, text):
        """A program, or what could stand in a function."""
        headers = "".join(f"#include <leat/{h.name}>\n" for h in sorted((self.root / "include" / "leat").glob("*.h")))
        if block.mark == "not run":
            return  # it needs headers that are not here
        program = text if "main(" in text else f"{headers}void snippet(void) {{\n{text}\n}}\n"
        command = ["cc", "-std=c11", "-fsyntax-only", f"-I{self.root / 'include'}", "-xc", "-"]
        done = subprocess.run(command, input=program, text=True, capture_output=True)
        assert done.returncode == 0, f"{block.place}: {done.stderr}"

    def text(self, block, text):
        found = re.search(r"^(\$ .*|(?:leat|pip|make|import|from) [a-z].*)$", text, re.M)
        plain = not found or block.mark == "output"
        assert plain, f"{block.place}: '{found.group()}' in a text block: sh, console and python blocks are run"


SHIM = """#!/bin/sh
# What `leat profile` watches has to start as Python does; anything else need not import torch again.
case "$LEAT_PROFILE:$1" in
:-u) shift;;
:-m | :-c | :*.py) ;;
*) exec {python} "$@";;
esac
exec {warm} "$@"
"""


def make_shims(folder):
    """`python` and `torchrun` for pages, in a folder: both are forked from a Python that has imported torch."""
    python = folder / "python"
    python.write_text(SHIM.format(python=sys.executable, warm=shlex.join(warm_python())))
    torchrun = folder / "torchrun"
    torchrun.write_text(f'#!/bin/sh\nPYTHON_EXEC={python} exec {python} -m torch.distributed.run "$@"\n')
    for path in (python, torchrun):
        path.chmod(0o755)


def wait_for_servers(text):
    """The text, where a command in the background that has a --port is waited for until it listens there."""
    waits = r"\1until (: < /dev/tcp/127.0.0.1/\2) 2> /dev/null; do kill -0 $! || exit 1; command sleep 0.05; done\n"
    return re.sub(r"^((?:[^\n]*\\\n)*[^\n]*--port (\d+)[^\n]* &\n)", waits, text, flags=re.M)


class Sandbox:
    """A folder, an environment and the processes that blocks of a page start."""

    def __init__(self, folder, env, syntax, timeout=120):
        self.folder, self.syntax, self.timeout = folder, syntax, timeout
        self.env, self.ports, self.groups = dict(env), {}, []
        self.interpreter = None
        self.last = ""  # what the last block printed
        self.count = 0

    def run(self, block):
        """Does what the block's language and mark say; AssertionError where that fails."""
        if block.mark == "not run":
            return self.syntax.check(block)
        text = PORT.sub(self.port, block.text)
        if block.mark == "file":
            self.syntax.check(block)
            path = self.folder / block.value
            path.parent.mkdir(parents=True, exist_ok=True)
            return path.write_text(text)
        if block.mark == "output":
            return compare(block, block.text, self.last)
        if block.lang == "sh":
            self.last = self.shell(block, text, int(block.value) if block.mark == "exit" else 0)
        elif block.lang == "console":
            for command, expected in commands_of(Block(block.page, block.line, block.lang, text)):
                self.last = self.shell(block, command, int(block.value) if block.mark == "exit" else 0)
                compare(block, expected, self.last)
        elif block.lang in ("python", "diff"):
            old, new = sides_of(block) if block.lang == "diff" else ("", text)
            self.syntax.python(block, old)
            self.last = self.python(block, new)
        else:
            self.syntax.check(block)

    def port(self, match):
        """A free port for the one that the page names, the same one throughout the page."""
        if match.group() not in self.ports:
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                self.ports[match.group()] = str(taken.getsockname()[1])
        return self.ports[match.group()]

    def output(self):
        self.count += 1
        return self.folder / f".output-{self.count}"

    def shell(self, block, text, status):
        exported, out, err = self.folder / ".exported", self.output(), self.output()
        script = f"set -eo pipefail\n{wait_for_servers(text)}\nset +x; export -p > {shlex.quote(str(exported))}\n"
        with open(out, "wb") as f, open(err, "wb") as g:
            process = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=f,
                stderr=g,
                start_new_session=True,
            )
        self.groups.append(process.pid)
        try:
            code = process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{block.place}: not done after {self.timeout} s\n{out.read_text()}") from None
        printed, errors = out.read_text(errors="replace"), err.read_text(errors="replace")
        assert code == status, f"{block.place}: exit status {code}, not {status}\n{text}\n{printed}{errors}"
        if status:
            printed += errors  # what a page shows of a failure is its message
        if exported.exists():
            for name, value in re.findall(r'^declare -x (\w+)="(.*)"$', exported.read_text(), re.M):
                if name not in ("PWD", "OLDPWD", "SHLVL", "_"):
                    self.env[name] = re.sub(r"\\(.)", r"\1", value)
        return printed

    def python(self, block, text):
        if self.interpreter is None:
            command = warm_python(Path(__file__).with_name("snippet_python.py"))
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self.interpreter = subprocess.Popen(command, env=self.env, text=True, **pipes)
            self.groups.append(int(self.interpreter.stdout.readline()))
        out, err = self.output(), self.output()
        order = {"page": block.page, "line": block.line, "text": text, "env": self.env}
        order |= {"folder": str(self.folder), "out": str(out), "err": str(err)}
        self.interpreter.stdin.write(json.dumps(order) + "\n")
        self.interpreter.stdin.flush()
        answer = "not done in time"
        if select.select([self.interpreter.stdout], [], [], self.timeout)[0]:
            answer = self.interpreter.stdout.readline() or "it ended"
        printed, errors = (path.read_text(errors="replace") if path.exists() else "" for path in (out, err))
        assert answer == "done\n", f"{block.place}: {answer}\n{printed}{errors}"
        return printed

    def close(self):
        """Ends everything that the blocks have started."""
        if self.interpreter:
            self.interpreter.stdin.close()  # it ends when there is nothing more to read, or else below
            self.interpreter.stdout.close()
            self.interpreter = None
        for number, seconds in ((signal.SIGTERM, 5), (signal.SIGKILL, 60)):
            self.groups = [group for group in self.groups if signalled(group, number)]
            deadline = time.monotonic() + seconds
            while any(signalled(group, 0) for group in self.groups) and time.monotonic() < deadline:
                time.sleep(0.02)


def members_of(group):
    """Processes of the group that are no zombies."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, pgid = path.read_text().rsplit(")", 1)[1].split()[:3]
            if int(pgid) == group and state != "Z":
                yield int(path.parent.name)


def signalled(group, number):
    """Whether there was a process left in the group to send the signal to."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
    return any(members_of(group))
