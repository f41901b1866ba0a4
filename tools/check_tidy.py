"""clang-tidy over src and python, in parallel. Clean files are remembered in the user's cache folder, for all clones: a file
is checked again only when its content, a header, the configuration, its compiler flags or clang-tidy changed.

tools/check_tidy.py          the analyzer ends early in long functions, but not where only a few files are to be checked
tools/check_tidy.py --deep   it does so in no file (make check-deep)
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
HEADERS = rf"--header-filter=^({ROOT}|\.\./\.\.)/(build/\w+/\.\./\.\./)?(src|include|python)/"
BATCH = 8  # files of one process: starting it costs as much as parsing one


def nodes(most):
    """How much the analyzer follows of a function, which decides on nine tenths of the time.

    Of 111 null dereferences, uninitialized reads and divisions by zero put at the end of functions, it found 102 with clang's
    default of 225,000 (78 s), as many with 60,000 (27 s), and 98 with 15,000 (12 s).
    """
    return [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={most}")]


QUICK = FLAGS + nodes(15_000)
DEEP = FLAGS + nodes(60_000)
# Files for which there is time for both. The quick one is done for them, too, since it takes other paths: it may find what
# the deep one does not, and a fresh clone should find no more than this one.
FEW = 50


def headers_of():
    """{source file: every file that compiling it reads}, as the compiler told ninja."""
    listing = subprocess.run(
        ["ninja", "-C", str(BUILD), "-t", "deps"], check=True, capture_output=True, text=True
    ).stdout
    found = {}
    for block in listing.split("\n\n"):
        paths = [Path(os.path.normpath(BUILD / line.strip())) for line in block.splitlines()[1:]]
        if paths:
            found.setdefault(paths[0], set()).update(paths)  # of a file that is part of two programs
    return found


@cache
def content(path):
    return hashlib.sha256(path.read_bytes()).digest() if path.exists() else b""


def digest_of(commands, headers):
    """Of everything that decides on the result for a file. Where the clone is does not."""
    digest = hashlib.sha256("\n".join(commands).replace(str(ROOT), "").encode())
    for name, path in sorted((str(path).removeprefix(str(ROOT)), path) for path in headers):
        digest.update(name.encode() + b"\0" + content(path))
    return digest.digest()


class Clean:
    """Which files were found clean: an empty file for each, so that several runs can add to them at the same time."""

    def __init__(self, digests):
        self.folder = cache_folder("tidy")
        self.digests = digests  # of every file
        version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
        self.config = version + (ROOT / ".clang-tidy").read_bytes() + HEADERS.replace(str(ROOT), "").encode()

    def mark(self, path, flags):
        return self.folder / hashlib.sha256(self.config + repr(flags).encode() + self.digests[path]).hexdigest()

    def without(self, flags):
        """The files that are still to be checked with these flags."""
        return [path for path in self.digests if not self.knows(path, flags)]

    def knows(self, path, flags):
        try:
            os.utime(self.mark(path, flags))
        except FileNotFoundError:
            return False
        return True

    def add(self, path, flags):
        self.mark(path, flags).touch()

    def prune(self):
        for entry in sorted(os.scandir(self.folder), key=lambda entry: entry.stat().st_mtime)[:-REMEMBERED]:
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


def check(paths, flags, clean):
    size = max(1, min(BATCH, len(paths) // os.cpu_count()))
    batches = [paths[i : i + size] for i in range(0, len(paths), size)]
    problems = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for batch, found in zip(batches, pool.map(lambda batch: problems_of(batch, flags), batches)):
            problems += found
            for path in set(batch) - {path for path, _, _ in found}:
                clean.add(path, flags)
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deep", action="store_true", help="end early in no file")
    flags = DEEP if parser.parse_args().deep else QUICK
    commands = {}  # of a file that is part of two programs, two
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = Path(os.path.normpath(Path(entry["directory"], entry["file"])))
        if path.relative_to(ROOT).parts[0] in ("src", "python") and path.suffix == ".c":
            commands.setdefault(path, []).append(entry["command"])
    headers = headers_of()
    missing = [path for path in commands if path not in headers]
    if missing:
        finish([(path, 0, "ninja does not know its headers: run make first") for path in missing])
    clean = Clean({path: digest_of(each, headers[path]) for path, each in commands.items()})
    todo = clean.without(flags)
    problems = []
    if flags is QUICK and len(todo) <= FEW:
        problems = check([path for path in todo if not clean.knows(path, DEEP)], DEEP, clean)
    bad = {path for path, _, _ in problems}
    problems += check([path for path in todo if path not in bad], flags, clean)
    clean.prune()
    finish(problems, f"{len(commands) - len(todo)} of {len(commands)} files unchanged")


if __name__ == "__main__":
    main()
