"""Another release of Leat out of a build folder: the same objects but those that know the version or the protocol.

Only these are compiled again, with the build's own commands, and the command and the extension are linked again: seconds
instead of a second build.
"""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

KNOWS = re.compile(r"LEAT_VERSION_STRING|LEAT_WIRE_PROTOCOL|LEAT_WIRE_VERSION")


class Release:
    def __init__(self, folder, version):
        self.version = version
        self.python = folder / "python"
        self.agent = folder / "leat"

    def env(self):
        return {"PYTHONPATH": str(self.python), "LEAT_AGENT": str(self.agent)}


def objects_again(build, folder, flags):
    """Compiles what knows; [(object in the build, object here), …]."""
    made = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["directory"], entry["file"])
        wanted = "libleat-core" in entry["output"] or "cli/leat.p" in entry["output"] or "_core" in entry["output"]
        if not wanted or not KNOWS.search(source.read_text(errors="replace")):
            continue
        words = shlex.split(entry["command"])
        at = words.index("-o")
        output = folder / words[at + 1].replace("/", "_")
        words[at + 1] = str(output)
        words = [w for w in words if not w.startswith("-DLEAT_VERSION_STRING")]
        for option in ("-MF", "-MQ"):
            at = words.index(option)
            del words[at : at + 2]
        words.remove("-MD")
        subprocess.run([*words, *flags], cwd=entry["directory"], check=True, capture_output=True, text=True)
        made.append((entry["output"], output))
    assert made, "no object knows the version"
    return made


def link_again(build, target, output, objects):
    """Links a target with other objects: they stand before the archive, whose own are then not asked for."""
    said = subprocess.run(
        ["ninja", "-C", str(build), "-t", "commands", target], capture_output=True, text=True, check=True
    )
    words = shlex.split([line for line in said.stdout.splitlines() if f"-o {target}" in line][-1])
    words[words.index("-o") + 1] = str(output)
    replaced = dict(objects)
    mine = [str(replaced.pop(word)) if word in replaced else word for word in words]
    rest = [str(path) for name, path in objects if "libleat-core" in name]
    at = mine.index("-Wl,--start-group")
    subprocess.run([*mine[:at], *rest, *mine[at:]], cwd=build, check=True, capture_output=True, text=True)


def make_release(build, folder, version, protocol=None):
    """A release of another version, and of another protocol where one is given."""
    folder.mkdir(parents=True)
    flags = [f'-DLEAT_VERSION_STRING="{version}"']
    if protocol is not None:
        flags.append(f"-DLEAT_WIRE_PROTOCOL={protocol}")
    objects = objects_again(build, folder, flags)
    release = Release(folder, version)
    link_again(build, "src/cli/leat", release.agent, objects)
    package = release.python / "leat"
    package.mkdir(parents=True)
    for path in (build / "python" / "leat").glob("*.py"):
        shutil.copy(path, package)
    (extension,) = (build / "python" / "leat").glob("_core*.so")
    link_again(build, str(extension.relative_to(build)), package / extension.name, objects)
    return release
