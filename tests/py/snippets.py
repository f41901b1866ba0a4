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
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

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


class Interpreters:
    """Where pages get a Python of their own: a process that has imported torch, and forks."""

    def __init__(self, folder, env, timeout=120):
        self.path, self.timeout = str(folder / "python"), timeout
        program = Path(__file__).with_name("snippet_python.py")
        self.process = subprocess.Popen([sys.executable, program, self.path], env=env, stdin=subprocess.DEVNULL)

    def open(self):
        """What blocks are written to, a line each, and answers read from; the first line is the number of its process."""
        deadline = time.monotonic() + self.timeout
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self.path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                connection.close()
                assert self.process.poll() is None and time.monotonic() < deadline, "no interpreter"
                time.sleep(0.05)
        connection.settimeout(self.timeout)
        with connection:
            return connection.makefile("rw")

    def close(self):
        self.process.terminate()
        self.process.wait()


class Sandbox:
    """A folder, an environment and the processes that blocks of a page start."""

    def __init__(self, folder, env, syntax, interpreters, timeout=120):
        self.folder, self.syntax, self.interpreters, self.timeout = folder, syntax, interpreters, timeout
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
        script = f"set -eo pipefail\n{text}\nset +x; export -p > {shlex.quote(str(exported))}\n"
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
            self.interpreter = self.interpreters.open()
            self.groups.append(int(self.interpreter.readline()))
        out, err = self.output(), self.output()
        order = {"page": block.page, "line": block.line, "text": text, "env": self.env}
        order |= {"folder": str(self.folder), "out": str(out), "err": str(err)}
        self.interpreter.write(json.dumps(order) + "\n")
        self.interpreter.flush()
        try:
            answer = self.interpreter.readline() or "it ended"
        except TimeoutError:
            answer = "not done in time"
        printed, errors = (path.read_text(errors="replace") if path.exists() else "" for path in (out, err))
        assert answer == "done\n", f"{block.place}: {answer}\n{printed}{errors}"
        return printed

    def close(self):
        """Ends everything that the blocks have started."""
        if self.interpreter:
            self.interpreter.close()
            self.interpreter = None
            time.sleep(0.1)  # it ends when there is nothing more to read
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.groups = [group for group in self.groups if signalled(group, number)]
            deadline = time.monotonic() + 5
            while any(signalled(group, 0) for group in self.groups) and time.monotonic() < deadline:
                time.sleep(0.02)


def signalled(group, number):
    """Whether there was a process left in the group to send the signal to; zombies do not count."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    listed = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    return any(row.split()[0] == str(group) and not row.split()[1].startswith("Z") for row in listed.splitlines())
