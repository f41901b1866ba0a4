"""python -m leat: the command `leat` of this package, wherever it lies. Installed from a folder (`pip install -e`) or into one
(`pip install --target`) it is not in PATH."""

from __future__ import annotations

import os
import shutil
import sys

from leat import _core

# As src/client/connect.c looks for the agent: of a build folder, of `--target`, of an environment.
_BESIDE = ("../bin/leat", "../../src/cli/leat", "../../../../bin/leat")


def find() -> str | None:
    """The command's path; None: there is none."""
    folder = os.path.dirname(os.path.abspath(_core.__file__))
    places = [os.path.normpath(os.path.join(folder, place)) for place in _BESIDE]
    return next((place for place in places if os.access(place, os.X_OK)), shutil.which("leat"))


def main() -> None:
    """Becomes the command."""
    command = find()
    if command is None:
        sys.exit("leat: the command was not found beside the package, nor in PATH: install the wheel again")
    os.environ.setdefault("LEAT_PYTHON", sys.executable)  # for `leat bench`, which needs this package and torch
    os.execv(command, ["leat", *sys.argv[1:]])


if __name__ == "__main__":
    main()
