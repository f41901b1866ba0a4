"""Makes two sets of photographs for bench_prep.py --photographs: DIR/photographs, ~500 pixels, and
DIR/photographs-large, 1 to 3 megapixels.

python bench/photographs.py DIR

The photographs are those of Debian's packages of wallpapers, fetched with apt-get; what is drawn is left out. Whole,
and a quarter of each, they are brought to the sizes of common collections and saved with qualities from 75 to 95, two
of three with Huffman tables of their own, some as 4:4:4 and 4:2:2.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

PACKAGES = ["mate-backgrounds", "lomiri-wallpapers-16.04", "lomiri-wallpapers-20.04", "plasma-workspace-wallpapers"]
FOLDERS = ["share/backgrounds", "contents/images"]
DRAWN = ["mate/abstract", "mate/desktop", "analogpattern", "greentock", "Infinite-Sea", "Painting", "Flow/", "Honeywave", "PastelHills", "SafeLanding",
         "Shell", "Volna", "summer_1am", "Grey/", "DarkestHour", "Fossa", "Dune", "Kite/"]  # fmt: skip
QUALITIES = [75, 85, 90, 80, 92, 88, 95, 82]
SAMPLINGS = [2, 2, 2, 0, 2, 2, 1, 2]  # as Pillow numbers them: 4:2:0, but for a 4:4:4 and a 4:2:2


def unpack(folder):
    for package in PACKAGES:
        subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True)
    for archive in sorted(folder.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(archive), str(folder)], check=True)
    for path in sorted(folder.rglob("*.jpg")):
        name = str(path)
        if not path.is_symlink() and any(f in name for f in FOLDERS) and not any(d in name for d in DRAWN):
            yield path


def save(image, pixels, path, number):
    scale = min(1.0, (pixels / (image.width * image.height)) ** 0.5)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.LANCZOS)
    sampling = SAMPLINGS[number // 3 % 8]
    image.save(path, quality=QUALITIES[number % 8], subsampling=sampling, optimize=number % 3 != 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    small, large = options.folder / "photographs", options.folder / "photographs-large"
    for folder in (small, large):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    number = 0
    with tempfile.TemporaryDirectory() as temporary:
        for path in unpack(Path(temporary)):
            with Image.open(path) as file:
                image = file.convert("RGB")
            w, h = image.size
            if w * h < 1_000_000:
                continue
            save(image, 500 * 500 * min(w, h) / max(w, h), small / f"{number:03}.jpg", number)
            save(image, 1e6 * (1 + 2 * (number * 7 % 16) / 15), large / f"{number:03}.jpg", number)
            part = image.crop((w // 4, h // 4, w // 4 + w // 2, h // 4 + h // 2))
            save(part, 500 * 500 * min(w, h) / max(w, h), small / f"{number + 1:03}.jpg", number + 1)
            number += 2
    print(f"{number} photographs in {small}, {number // 2} in {large}")


if __name__ == "__main__":
    main()
