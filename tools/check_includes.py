"""Fails on an #include that the table in docs/architecture.md does not allow.

That table is the law: there is no other copy of it.
"""

import argparse
import re
from pathlib import Path

from tree import ROOT, files, finish

# `order`, `sched` and `plan` do no I/O, read no clock and start no thread: the same input gives the same output.
PURE = {"order", "plan", "sched"}
IMPURE = re.compile(
    r"base/(clock|log|thread)\.h|(pthread|threads|time|unistd|fcntl|signal|poll|dirent)\.h|(sys|netinet|arpa|curl)/.*"
)


def read_table(document):
    """{module: the set of modules it may include} from the rows '| `src/x/` | what | may include |'."""
    table = {}
    for row in document.read_text().splitlines():
        found = re.match(r"\| `src/(\w+)/` \|.*\| ([^|]*) \|$", row)
        if not found:
            continue
        module, allowed = found.groups()
        table[module] = set(table) if allowed in ("all above", "all") else set(re.findall(r"\w+", allowed))
        unknown = table[module] - set(table)
        if unknown:
            raise SystemExit(f"{document}: src/{module}/ may include {sorted(unknown)}, which no row above defines")
    if not table:
        raise SystemExit(f"{document} holds no table of modules")
    return table


def check_file(path, module, allowed, known, root):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if not found:
            continue
        quote, name = found.groups()
        folder = name.split("/")[0] if "/" in name else ""
        if module in PURE and IMPURE.fullmatch(name):
            yield path, number, f"'{name}': {module} does no I/O, reads no clock and starts no thread"
        if quote == "<":
            if folder in known or folder == "leat":
                yield path, number, f'write "{name}", not <{name}>'
        elif folder == "leat":
            if not (root / "include" / name).exists():
                yield path, number, f"there is no include/{name}"
        elif not module and not folder and (path.parent / name).exists():
            continue  # the extension's own header, beside it
        elif folder not in known:
            yield path, number, f'write "{name}" with its module\'s name before it'
        elif folder != module and folder not in allowed:
            yield path, number, f"{module or 'this'} may not include {folder} ('{name}')"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="another tree, for the test of this check")
    root = parser.parse_args().root
    table = read_table(root / "docs" / "architecture.md")
    problems = []
    for path in files({".c", ".h"}, "src", root=root):
        module = path.relative_to(root).parts[1]
        if module in table:
            problems += check_file(path, module, table[module], set(table), root)
        else:
            problems.append((path, 0, f"src/{module}/ is not in the table of docs/architecture.md"))
    for path in files({".c", ".h"}, "include", "python", root=root):
        problems += check_file(path, "", set(), set(table), root)
    finish(problems)


if __name__ == "__main__":
    main()
