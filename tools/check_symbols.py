"""Fails when libleat.so exports anything but what include/leat marks LEAT_API, or less than that."""

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


def main():
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", str(LIBRARY)], check=True, capture_output=True, text=True
    ).stdout
    exported = {line.split()[0] for line in listing.splitlines()}
    public = declared()
    problems = [(LIBRARY, 0, f"exports {name}, which include/leat does not declare") for name in exported - set(public)]
    problems += [(public[n], 0, f"{n} is LEAT_API but libleat.so does not export it") for n in set(public) - exported]
    finish(sorted(problems))


if __name__ == "__main__":
    main()
