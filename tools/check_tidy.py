"""clang-tidy over src and python, in parallel. Clean files are remembered in the user's cache folder, for all clones: a file
is checked again only when its content, a header, the configuration, its compiler flags or clang-tidy changed.

tools/check_tidy.py          the analyzer follows each function for a while
tools/check_tidy.py --deep   … for as long as clang does by default (make check-deep)
"""

import argparse
import hashlib
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from tree import ROOT, cache_folder, finish

BUILD = ROOT / "build" / "release"
REMEMBERED = 10_000  # marks of clean files, 64 bytes each: twenty states of the whole tree
# GCC's own warnings that clang does not know.
FLAGS = ["--extra-arg=-Wno-unknown-warning-option", "--quiet", "--warnings-as-errors=*"]
# The analyzer's time is what all other checks take together, ten times over. Of the null dereferences, uninitialized reads and
# divisions by zero that were put at the end of long functions it found as many with this bound as with one fifteen times larger.
QUICK = ["--extra-arg=-Xclang", "--extra-arg=-analyzer-config", "--extra-arg=-Xclang", "--extra-arg=max-nodes=15000"]
HEADERS = rf"--header-filter=^({ROOT}|\.\./\.\.)/(build/\w+/\.\./\.\./)?(src|include|python)/"
BATCH = 8  # files of one process: starting it costs as much as parsing one


def headers_of():
    """{source file: every file that compiling it reads}, as the compiler told ninja."""
    listing = subprocess.run(
        ["ninja", "-C", str(BUILD), "-t", "deps"], check=True, capture_output=True, text=True
    ).stdout
    found = {}
    for block in listing.split("\n\n"):
        paths = [Path(os.path.normpath(BUILD / line.strip())) for line in block.splitlines()[1:]]
        if paths:
            found[paths[0]] = sorted(set(paths))
    return found


@cache
def content(path):
    return hashlib.sha256(path.read_bytes()).digest() if path.exists() else b""


def mark_of(commands, headers, config):
    """A name for everything that decides on the result. Where the clone is does not."""
    digest = hashlib.sha256(config + "\n".join(commands).replace(str(ROOT), "").encode())
    for path in headers:
        digest.update(str(path).removeprefix(str(ROOT)).encode() + b"\0" + content(path))
    return digest.hexdigest()


class Marks:
    """Empty files that are named by what was found clean, so that several runs can add to them at the same time."""

    def __init__(self):
        self.folder = cache_folder("tidy")

    def has(self, mark):
        try:
            os.utime(self.folder / mark)
        except FileNotFoundError:
            return False
        return True

    def add(self, mark):
        (self.folder / mark).touch()

    def prune(self):
        oldest = sorted(os.scandir(self.folder), key=lambda entry: entry.stat().st_mtime)[:-REMEMBERED]
        for entry in oldest:
            Path(entry).unlink(missing_ok=True)


def tidy(paths, flags):
    return subprocess.run(
        ["clang-tidy", "-p", str(BUILD), *flags, HEADERS, *map(str, paths)], capture_output=True, text=True, check=False
    )


def problems_of(paths, flags):
    """What is wrong with each of some files. Only where something is are they checked one by one."""
    if tidy(paths, flags).returncode == 0:
        return []
    alone = [(path, tidy([path], flags)) for path in paths]
    return [(path, 0, f"clang-tidy\n{done.stdout}{done.stderr}") for path, done in alone if done.returncode != 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deep", action="store_true", help="look at every path that clang looks at by default")
    flags = FLAGS if parser.parse_args().deep else FLAGS + QUICK
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    config = version + (ROOT / ".clang-tidy").read_bytes() + repr(flags).encode()
    commands = {}  # of a file that is part of two programs, two
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = Path(os.path.normpath(Path(entry["directory"], entry["file"])))
        if path.relative_to(ROOT).parts[0] in ("src", "python") and path.suffix == ".c":
            commands.setdefault(path, []).append(entry["command"])
    headers = headers_of()
    wanted = {path: mark_of(each, headers.get(path, [path]), config) for path, each in commands.items()}
    marks = Marks()
    todo = [path for path, mark in wanted.items() if not marks.has(mark)]
    batches = [todo[i : i + BATCH] for i in range(0, len(todo), BATCH)]
    problems = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for batch, found in zip(batches, pool.map(lambda batch: problems_of(batch, flags), batches)):
            problems += found
            bad = {path for path, _, _ in found}
            for path in batch:
                if path not in bad:
                    marks.add(wanted[path])
    marks.prune()
    finish(problems, f"{len(wanted) - len(todo)} of {len(wanted)} files unchanged")


if __name__ == "__main__":
    main()
