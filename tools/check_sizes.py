"""Fails on functions over 90 lines: what no longer fits a head should be two things. Names files over 700 lines, as a hint."""

import ast

from tree import ROOT, files, finish

FILE_HINT = 700
FUNCTION_MAX = 90


def c_functions(lines):
    """(line, length) of every function, by the braces at the beginning of a line."""
    start = 0
    for number, line in enumerate(lines, 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start:
            yield start, number - start - 1
            start = 0


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno


def main():
    problems = []
    long = []
    for path in files({".c", ".h", ".py"}):
        text = path.read_text(errors="replace")
        lines = text.splitlines()
        if len(lines) > FILE_HINT:
            long.append(f"{path.relative_to(ROOT)} has {len(lines)} lines")
        functions = python_functions(text) if path.suffix == ".py" else c_functions(lines)
        problems += [
            (path, line, f"a function of {length} lines, more than {FUNCTION_MAX}")
            for line, length in functions
            if length > FUNCTION_MAX
        ]
    finish(problems, ", ".join(long))


if __name__ == "__main__":
    main()
