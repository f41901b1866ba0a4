"""Fails when the C interface is no longer the one that is stored in tests/golden/abi-1.

tools/check_abi.py           compares: functions, structs and symbol versions by libabigail, constants by value
tools/check_abi.py --renew   stores it as it is now (make abi-dump)
"""

import argparse
import json
import platform
import re
import shlex
import subprocess
import sys

from check_symbols import LIBRARY, exported
from tree import ROOT, code_only, files

STORED = ROOT / "tests" / "golden" / "abi-1"
OUT = ROOT / "build" / "check" / "abi"
PROBE = OUT / "libleat.so"
DUMP = ["abidw", "--drop-private-types", "--drop-undefined-syms", "--no-corpus-path", "--no-comp-dir-path"]
DUMP += ["--no-show-locs", "--no-elf-needed", "--type-id-style", "hash", "--headers-dir", str(OUT / "include")]
# abidiff leaves these to its reader: fields that moved, changed or went, functions that take or return something else.
BREAKS = re.compile(
    r"offset changed|data member (deletion|change)|return type changed|type changed from|parameter \d+ .*(removed|added)"
)
CHANGED = 4  # abidiff's exit status: something differs; any other bit says that it breaks programs, or an error


def flags():
    """What the release build tells its compiler about the layout of types."""
    entries = json.loads((ROOT / "build" / "release" / "compile_commands.json").read_text())
    command = next(entry["command"] for entry in entries if entry["file"].endswith("src/base/error.c"))
    return [word for word in shlex.split(command) if re.match(r"-(D|f|m|std=)", word)]


def build_probe():
    """A library of the public functions with empty bodies and debug information, from which libabigail reads types.

    The release library has none. Its functions are those of the headers: the compiler compares each definition with its
    declaration, and compare_symbols() what both libraries export.
    """
    headers = sorted(files({".h"}, "include"))
    for path in headers:
        copy = OUT / "include" / path.relative_to(ROOT / "include")
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text()
        ends = [found.end() for found in re.finditer(r"^LEAT_API\b[^;{]*(?=;)", code_only(text), flags=re.M)]
        for end in reversed(ends):
            text = text[:end] + " { __builtin_trap(); }" + text[end + 1 :]
        copy.write_text(text)
    program = "".join(f'#include "{path.relative_to(ROOT / "include")}"\n' for path in headers)
    command = ["gcc", "-x", "c", *flags(), "-g", "-fPIC", "-shared", f"-I{OUT}/include", "-o", str(PROBE), "-"]
    command += ["-Wl,-soname,libleat.so.1", f"-Wl,--version-script={ROOT}/src/leat.map"]
    subprocess.run(command, input=program, check=True, text=True)


def compare_symbols():
    """Sentences about what the release library exports in another way than its headers and src/leat.map say."""
    library, probe = exported(LIBRARY)[0], exported(PROBE)[0]
    return [
        f"{name}: {LIBRARY.name} has it as {library.get((name, kind), 'nothing')}, headers and map as {probe.get((name, kind), 'nothing')}"
        for name, kind in sorted(library.keys() | probe.keys())
        if library.get((name, kind)) != probe.get((name, kind))
    ]


def dump():
    build_probe()
    return subprocess.run([*DUMP, str(PROBE)], check=True, capture_output=True, text=True).stdout


def constants():
    """{name: value} of every enumerator and every numeric #define of the public headers."""
    names = set()
    headers = sorted(files({".h"}, "include"))
    for path in headers:
        text = code_only(path.read_text())
        for body in re.findall(r"\benum\s+\w+\s*\{([^}]*)\}", text):
            names.update(re.findall(r"\b(LEAT_\w+)\b", body))
        names.update(re.findall(r"^#define (LEAT_\w+)[ \t]+\(?\d", text, flags=re.M))
    program = "".join(f'#include "{path}"\n' for path in headers) + "#include <stdio.h>\nint main(void) {\n"
    program += "".join(f'printf("%s %lld\\n", "{name}", (long long){name});\n' for name in sorted(names)) + "}\n"
    build = OUT / "constants"
    compile_it = ["gcc", "-x", "c", f"-I{ROOT}/include", "-o", str(build), "-"]
    subprocess.run(compile_it, input=program, check=True, text=True)
    lines = subprocess.run([str(build)], check=True, capture_output=True, text=True).stdout.splitlines()
    return dict(line.split() for line in lines)


def read_constants(text):
    return dict(line.split() for line in text.splitlines())


def compare_constants(stored, now):
    """(what breaks programs, what does not) in sentences."""
    broken = [
        f"{name} was {value}, is {now.get(name, 'gone')}" for name, value in stored.items() if now.get(name) != value
    ]
    return broken, [f"{name} is new" for name in now if name not in stored]


def compare_library(stored):
    """(abidiff's exit status, its report)"""
    current = OUT / "library.xml"
    current.write_text(dump())
    done = subprocess.run(["abidiff", str(stored), str(current)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def renew():
    (STORED / "library.xml").write_text(dump())
    (STORED / "constants.txt").write_text("".join(f"{name} {value}\n" for name, value in constants().items()))
    print(f"stored in {STORED.relative_to(ROOT)}: look at what `git diff` says before committing it")


def check():
    status, report = compare_library(STORED / "library.xml")
    broken, added = compare_constants(read_constants((STORED / "constants.txt").read_text()), constants())
    broken += compare_symbols()
    if status == 0 and not broken and not added:
        return 0
    print("\n".join([report.strip(), *broken, *added]))
    if broken or status & ~CHANGED or BREAKS.search(report):
        print(
            "Programs that were built with the stored interface break. That needs another soversion, and docs/architecture.md"
        )
        print("says what may change without one. When it was intended nevertheless: make abi-dump")
    else:
        print(
            "When docs/architecture.md allows this change (functions in a new node of src/leat.map, fields at the end of a"
        )
        print("struct that knows its size), store it: make abi-dump")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--renew", action="store_true", help="store the interface as it is now")
    args = parser.parse_args()
    if platform.machine() != "x86_64":
        print(f"the stored interface is that of x86_64, this is {platform.machine()}: not compared")
        return 0
    if not LIBRARY.exists():
        print(f"{LIBRARY.relative_to(ROOT)} is not there: run `make build-release`")
        return 1
    OUT.mkdir(parents=True, exist_ok=True)
    if args.renew:
        return renew()
    return check()


if __name__ == "__main__":
    sys.exit(main())
