"""Clean places to install a wheel in: this machine's own Python, and roots of Debian releases, always as a user who is nobody."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "wheel"
NOBODY = 65534
# The oldest and the newest that the registry has, and the ones between.
RELEASES = ["bullseye", "bookworm", "trixie", "sid"]


def make_root(release):
    """A Debian root in the cache: what a person has who installed nothing but Python."""
    root = CACHE / "roots" / release
    if root.exists():
        return root
    part = root.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    packages = "python3,python3-venv,ca-certificates"
    command = ["debootstrap", "--variant=minbase", f"--include={packages}", release, part]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    part.rename(root)
    return root


class Place:
    """Where commands run: with an empty environment, a home of their own and no rights."""

    def __init__(self, root, home):
        self.root = root  # None: this machine
        self.home = home  # as this process sees it
        self.inside = Path("/") / home.relative_to(root) if root else home

    def run(self, *command, env=None, setup="", timeout=300):
        """setup: shell commands run first as root, in a mount namespace of their own; $ROOT is the root."""
        settings = {"HOME": self.inside, "PATH": f"{self.inside}/env/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
        settings |= {"AWS_EC2_METADATA_DISABLED": "true", "PIP_DISABLE_PIP_VERSION_CHECK": "1"} | (env or {})
        words = [f"{name}={value}" for name, value in settings.items()]
        enter = 'cd "$HOME_INSIDE" && exec "$@"'
        become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        shell = ["env", "-i", f"HOME_INSIDE={self.inside}", *words, "sh", "-c", enter, "sh", *map(str, command)]
        if self.root:
            mounts = 'set -e; mount -t proc proc "$ROOT/proc"; mount --rbind /dev "$ROOT/dev"; '
            mounts += f'{setup}\nexec chroot --userspec={NOBODY}:{NOBODY} --groups= "$ROOT" "$@"'
            whole = ["unshare", "--mount", "--fork", "sh", "-c", mounts, "sh", *shell]
        else:
            whole = [*become, *shell]
        return subprocess.run(
            whole, capture_output=True, text=True, timeout=timeout, env={**os.environ, "ROOT": str(self.root or "/")}
        )

    def check(self, *command, **more):
        """The standard output of a command that must succeed."""
        done = self.run(*command, **more)
        assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def give(self, source, name=None):
        """A file or folder of this machine, copied to the place's home."""
        target = self.home / (name or Path(source).name)
        if Path(source).is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", target], check=True)
        return self.inside / target.name


@contextlib.contextmanager
def open_place(release):
    """release: of Debian, or "here"."""
    root = None if release == "here" else make_root(release)
    folder = tempfile.mkdtemp(prefix="leat-wheel-", dir=root / "tmp" if root else None)
    try:
        os.chown(folder, NOBODY, NOBODY)
        yield Place(root, Path(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def numpy_for(place):
    """A numpy wheel for the place's Python: fetched once, because the place itself asks nobody."""
    version = place.check("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    house = CACHE / "wheelhouse"
    found = [*house.glob(f"numpy-*-cp{version.replace('.', '')}-*.whl")]
    if not found:
        command = [ROOT / ".venv/bin/python", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--python-version", version, "--dest", house, "numpy"], check=True)
        found = [*house.glob(f"numpy-*-cp{version.replace('.', '')}-*.whl")]
    return found[-1]
