"""Fails when libleat.so exports anything but what include/leat marks LEAT_API, or less than that, or without a version."""

import re
import subprocess

from tree import ROOT, code_only, files, finish

LIBRARY = ROOT / "build" / "release" / "src" / "libleat.so"


def declared():
    """{name: header} of every function and object marked LEAT_API."""
    found = {}
    for path in files({".h"}, "include"):
        for match in re.finditer(r"^LEAT_API\b([^;{]*)[;{]", code_only(path.read_text()), flags=re.M):
            name = re.search(r"(\w+)\s*(?:\(|\[|$)", match.group(1).strip())
            found[name.group(1)] = path
    return found


def exported(library):
    """{(name, kind): version} of what a library exports, as nm says it, and the names of the versions themselves."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", str(library)], check=True, capture_output=True, text=True
    ).stdout
    symbols = [line.split()[:2] for line in listing.splitlines()]
    names = {(name.partition("@@")[0], kind): name.partition("@@")[2] for name, kind in symbols if kind != "A"}
    return names, {name for name, kind in symbols if kind == "A"}  # the nodes of src/leat.map


def main():
    names, versions = exported(LIBRARY)
    now = {name: version for (name, _), version in names.items()}
    public = declared()
    problems = [(LIBRARY, 0, f"exports {n}, which include/leat does not declare") for n in now if n not in public]
    problems += [(LIBRARY, 0, f"exports {n} without a version") for n, v in now.items() if v not in versions]
    problems += [
        (public[n], 0, f"{n} is LEAT_API but libleat.so does not export it: add it to src/leat.map")
        for n in public
        if n not in now
    ]
    finish(sorted(problems))


if __name__ == "__main__":
    main()
