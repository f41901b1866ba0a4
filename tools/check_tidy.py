"""clang-tidy over src and python, in parallel. A file is looked at again only when it, a header it includes, the
configuration or its compiler flags changed: results of clean files are remembered in build/check."""

import hashlib
import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tree import ROOT, finish

BUILD = ROOT / "build" / "release"
CLEAN = ROOT / "build" / "check" / "tidy-clean.json"
# GCC's own warnings that clang does not know.
FLAGS = ["--extra-arg=-Wno-unknown-warning-option", "--quiet", "--warnings-as-errors=*"]
# Clang's analyzer takes nine tenths of the time, most of it in the last paths of a few long functions. A quarter of its usual bound
# finds as much in a third of the time.
FLAGS += ["--extra-arg=-Xclang", "--extra-arg=-analyzer-config", "--extra-arg=-Xclang", "--extra-arg=max-nodes=60000"]
HEADERS = rf"--header-filter=^({ROOT}|\.\./\.\.)/(build/\w+/\.\./\.\./)?(src|include|python)/"


def project_headers(path, seen):
    """Adds what the file includes of this project, and what that includes."""
    for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(errors="replace"), flags=re.M):
        for folder in ("src", "include"):
            header = ROOT / folder / name
            if header.exists() and header not in seen:
                seen.add(header)
                project_headers(header, seen)
    return seen


def fingerprint(entry, config):
    path = Path(entry["directory"], entry["file"]).resolve()
    digest = hashlib.sha256(config + entry["command"].encode())
    for part in [path, *sorted(project_headers(path, set()))]:
        digest.update(part.read_bytes())
    return path, digest.hexdigest()


def tidy(path):
    done = subprocess.run(
        ["clang-tidy", "-p", str(BUILD), *FLAGS, HEADERS, str(path)], capture_output=True, text=True, check=False
    )
    return [] if done.returncode == 0 else [(path, 0, f"clang-tidy\n{done.stdout}{done.stderr}")]


def main():
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    config = version + (ROOT / ".clang-tidy").read_bytes() + repr(FLAGS).encode()
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    wanted = {}
    for entry in entries:
        path, mark = fingerprint(entry, config)
        if path.relative_to(ROOT).parts[0] in ("src", "python") and path.suffix == ".c":
            wanted[path] = mark
    known = set(json.loads(CLEAN.read_text())) if CLEAN.exists() else set()
    todo = [path for path, mark in wanted.items() if mark not in known]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [problem for found in pool.map(tidy, todo) for problem in found]
    bad = {path for path, _, _ in problems}
    CLEAN.parent.mkdir(parents=True, exist_ok=True)
    CLEAN.write_text(json.dumps(sorted(mark for path, mark in wanted.items() if path not in bad)))
    finish(problems)


if __name__ == "__main__":
    main()
