"""Writes python/leat/_settings.py, the types of a loader's settings, from the C library's table.

PYTHONPATH=build/release/python tools/settings.py            prints it
PYTHONPATH=build/release/python tools/settings.py --write    puts it where it belongs; `make test` fails where it is out of date
"""

import sys
from pathlib import Path

from leat import _core
from leat.loader import _HIDDEN

PLACE = Path(__file__).resolve().parents[1] / "python" / "leat" / "_settings.py"
HEAD = '''"""The settings of leat.Loader, for type checkers. Made by tools/settings.py from the C library's table."""

from __future__ import annotations

from typing import Literal, TypedDict

from leat._types import Address, Bytes, Seconds, Whole
from leat.views import Blocks


class Settings(TypedDict, total=False):
    """Keywords of leat.Loader; None is the default of each."""

'''
NUMBER, FLAG, TEXT, SIZE, DURATION, CHOICE = range(1, 7)  # enum leat_setting_type
TYPES = {NUMBER: "Whole", FLAG: "bool", TEXT: "str", SIZE: "Bytes", DURATION: "Seconds"}
OTHERS = {"cache_dir": "Address", "agent": "Address", "view": "Blocks | str"}  # texts that may be something else


def type_of(name, kind, choices):
    if kind == CHOICE:
        return f"Literal[{', '.join(repr(c) for c in choices.split())}]".replace("'", '"')
    return OTHERS.get(name, TYPES[kind])


def text():
    rows = [
        f"    {name}: {type_of(name, kind, choices)} | None  # {about}\n"
        for name, kind, _, _, choices, about in _core.settings()
        if name not in _HIDDEN and name != "shuffle"  # which has a default of its own
    ]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PLACE.write_text(text())
    else:
        print(text(), end="")
