"""Fails on files over 700 lines and functions over 90: what no longer fits a head should be two things."""

import ast

from tree import files, finish

FILE_MAX = 700
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
    for path in files({".c", ".h", ".py"}):
        text = path.read_text(errors="replace")
        lines = text.splitlines()
        if len(lines) > FILE_MAX:
            problems.append((path, 0, f"{len(lines)} lines, more than {FILE_MAX}"))
        functions = python_functions(text) if path.suffix == ".py" else c_functions(lines)
        problems += [
            (path, line, f"a function of {length} lines, more than {FUNCTION_MAX}")
            for line, length in functions
            if length > FUNCTION_MAX
        ]
    finish(problems)


if __name__ == "__main__":
    main()
