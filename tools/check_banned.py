"""Fails on calls that have no bounds, no error or no place in a library."""

import re

from tree import ROOT, code_only, files, finish

EVERYWHERE = {
    "alloca": "takes its size on trust: use malloc or a fixed array",
    "atof": "reports no error: use leat_parse_double",
    "atoi": "reports no error: use leat_parse_u64",
    "atol": "reports no error: use leat_parse_u64",
    "gets": "has no bound",
    "sprintf": "has no bound: use snprintf or leat_buf_printf",
    "strcat": "has no bound: use leat_buf_str",
    "strcpy": "has no bound: use memcpy with a checked length",
    "strncpy": "need not end with a NUL: use snprintf or memcpy",
    "strndup": "may look for a NUL after its n bytes: use leat_bytes_text",
    "strtok": "keeps a hidden state: use strcspn",
    "system": "hands text to a shell",
    "vsprintf": "has no bound: use vsnprintf",
}

# Only the command line talks to people. A library returns its errors and logs through base/log.h.
IN_LIBRARY = {
    r"printf": "library code does not print: leat_fail or leat_log",
    r"v?fprintf\s*\(\s*std(?:out|err)": "library code does not print: leat_fail or leat_log",
    r"puts": "library code does not print: leat_fail or leat_log",
    r"putchar": "library code does not print: leat_fail or leat_log",
    r"perror": "library code does not print: leat_fail_errno",
    r"exit": "a library does not end the process",
    r"abort": "a library does not end the process",
}


def problems_of(path):
    text = code_only(path.read_text(errors="replace"))
    parts = path.relative_to(ROOT).parts
    library = parts[0] == "python" or (parts[0] == "src" and parts[1] != "cli")
    rules = {rf"{name}\s*\(": f"{name}: {why}" for name, why in EVERYWHERE.items()}
    if library:
        rules.update({name if "(" in name else rf"{name}\s*\(": why for name, why in IN_LIBRARY.items()})
    for pattern, why in rules.items():
        for match in re.finditer(rf"(?<![\w.>]){pattern}", text):
            yield path, text.count("\n", 0, match.start()) + 1, why


def main():
    problems = []
    for path in files({".c", ".h"}, "src", "include", "python", "tests", "bench", "examples"):
        problems += problems_of(path)
    finish(problems)


if __name__ == "__main__":
    main()
