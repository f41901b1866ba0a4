"""Which files the checks look at, and how they report."""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = {".git", ".venv", "build", "dist", "__pycache__", ".hypothesis", "out", "corpus"}
NOTE = "note: "  # what a check has to say besides its problems


def cache_folder(name):
    """A folder for what all clones of this user share. It may be removed at any time."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "leat", "check", name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def files(suffixes, *folders, root=ROOT):
    """All files with one of the suffixes below the folders (all of them when none is given), sorted."""
    found = []
    for start in [root / f for f in folders] or [root]:
        for folder, inside, names in os.walk(start):
            inside[:] = [name for name in inside if name not in SKIPPED]  # .venv alone has more files than all the rest
            found += [
                Path(folder, name) for name in names if os.path.splitext(name)[1] in suffixes and name not in SKIPPED
            ]
    return sorted(found)


def shell_scripts(root=ROOT):
    """Files without a suffix, or .sh, that begin with a shell's name."""
    found = []
    for path in files({"", ".sh"}, root=root):
        with open(path, "rb") as f:
            if re.match(rb"#!.*\b(ba|da)?sh\b", f.readline()):
                found.append(path)
    return found


def code_only(text):
    """C source with comments and the insides of strings blanked; line numbers stay."""

    def blank(match):
        token = match.group()
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        return token[0] + " " * (len(token) - 2) + token[-1]

    pattern = r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    return re.sub(pattern, blank, text, flags=re.S)


def report(problems):
    """Prints (path, line, message) triples; the exit status of the check."""
    for path, line, message in problems:
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        print(f"{shown}:{line}: {message}" if line else f"{shown}: {message}")
    return 1 if problems else 0


def finish(problems, note=""):
    """Ends the check. tools/check.py shows the note in the check's line."""
    if note:
        print(f"{NOTE}{note}")
    sys.exit(report(problems))
