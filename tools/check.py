"""make check: every check of the sources, each one a test in build/check/check.junit.xml.

tools/check.py              all of them
tools/check.py tidy banned  some of them
tools/check.py --fix format ruff
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from tree import NOTE, ROOT, files, shell_scripts

VENV = ROOT / ".venv" / "bin"
OUT = ROOT / "build" / "check"
CPPCHECK = (
    OUT / "cppcheck"
)  # what it found in each file, which it looks up where the file and its headers are unchanged


def script(name):
    return [sys.executable, str(ROOT / "tools" / f"check_{name}.py")]


def clang_format(fix):
    # The pinned one of the test environment: other versions lay the same text out differently.
    mode = ["-i"] if fix else ["--dry-run", "--Werror"]
    return [str(VENV / "clang-format"), *mode, *map(str, files({".c", ".h"}))]


def ruff(fix):
    tool = str(VENV / "ruff")
    if fix:
        return ["sh", "-c", f"{tool} check --fix -q . && {tool} format -q ."]
    return ["sh", "-c", f"{tool} check --output-format concise . && {tool} format --check ."]


def cppcheck(fix):
    CPPCHECK.mkdir(parents=True, exist_ok=True)
    return [
        *("cppcheck", "--quiet", "--error-exitcode=1", "--inline-suppr", "--std=c11", "-j2"),
        *("--enable=warning,performance,portability", f"--cppcheck-build-dir={CPPCHECK}"),
        "--suppress=missingIncludeSystem",
        # A caller that waits may lend its stack to the thread that works for it.
        "--suppress=autoVariables",
        # Loses track of memory that goes into a struct; LeakSanitizer and clang's analyzer do not.
        "--suppress=memleak",
        # Does not see through Python's macros; the compilers' -Wreturn-type does.
        "--suppress=missingReturn",
        # Tables of offsets into a struct, as those of options and jobs, need such a cast.
        "--suppress=invalidPointerCast",
        *("-D__x86_64__", "-D_GNU_SOURCE", "-Iinclude", "-Isrc", "src", "python"),
    ]


CHECKS = {
    "format": clang_format,
    "includes": lambda fix: script("includes"),
    "banned": lambda fix: script("banned"),
    "sizes": lambda fix: script("sizes"),
    "headers": lambda fix: script("headers"),
    "symbols": lambda fix: script("symbols"),
    "abi": lambda fix: script("abi"),
    "links": lambda fix: script("links"),
    "words": lambda fix: script("words"),
    "ruff": ruff,
    "shellcheck": lambda fix: ["shellcheck", "-x", *map(str, shell_scripts())],
    "cppcheck": cppcheck,
    "tidy": lambda fix: script("tidy"),
}


WIDE = {"headers", "cppcheck", "tidy"}  # use all cores themselves; of the others several run at a time


@dataclass
class Result:
    name: str
    problem: str = ""  # what is wrong, or nothing
    seconds: float = 0
    processor: float = 0
    notes: list = field(default_factory=list)

    def line(self):
        notes = "".join(f", {note}" for note in self.notes)
        state = "FAIL" if self.problem else "ok"
        return f"{state:4} {self.name} ({self.seconds:.1f} s, {self.processor:.1f} s of processor time{notes})"


def from_cppcheck_cache(began):
    kept = [path.stat().st_mtime < began for path in CPPCHECK.glob("*.a[0-9]*")]
    return f"{sum(kept)} of {len(kept)} files unchanged"


def run(name, fix):
    command = CHECKS[name](fix)
    if not shutil.which(command[0]):
        return Result(name, f"{command[0]} is not installed: run `tools/deps check`")
    began = time.time()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = process.stdout.read().strip().split("\n")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    notes = [line.removeprefix(NOTE) for line in lines if line.startswith(NOTE)]
    text = "\n".join(line for line in lines if not line.startswith(NOTE)) or f"exit status {process.returncode}"
    if name == "cppcheck":
        notes.append(from_cppcheck_cache(began))
    return Result(name, text if process.returncode else "", time.time() - began, usage.ru_utime + usage.ru_stime, notes)


def write_junit(results):
    OUT.mkdir(parents=True, exist_ok=True)
    failed = sum(bool(result.problem) for result in results)
    with open(OUT / "check.junit.xml", "w") as f:
        f.write(f'<testsuite name="check" tests="{len(results)}" failures="{failed}">\n')
        for result in results:
            f.write(f'  <testcase classname="check" name={quoteattr(result.name)} time="{result.seconds:.3f}">')
            if result.problem:
                text = "".join(c for c in result.problem if c.isprintable() or c == "\n")
                f.write(f"<failure>{escape(text)}</failure>")
            f.write("</testcase>\n")
        f.write("</testsuite>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true", help="correct what can be corrected (format, ruff)")
    parser.add_argument("names", nargs="*", choices=[[], *CHECKS], help=" ".join(CHECKS))
    args = parser.parse_args()
    names = args.names or list(CHECKS)
    results = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        narrow = {name: pool.submit(run, name, args.fix) for name in names if name not in WIDE}
        for name in names:
            result = narrow[name].result() if name in narrow else run(name, args.fix)
            results.append(result)
            print(result.line(), flush=True)
            if result.problem:
                print(result.problem, flush=True)
    write_junit(results)
    sys.exit(any(result.problem for result in results))


if __name__ == "__main__":
    main()
