"""Pictures for tests, and how far two of them are apart."""

import numpy as np
from PIL import Image


def photo(width, height, seed=0, mode="RGB"):
    """Detail at several scales, so that every tap of a filter matters."""
    rng = np.random.default_rng(seed)
    bands = len(Image.new(mode, (1, 1)).getbands())
    total = np.zeros((height, width, bands))
    for cell, amplitude in ((64, 70), (16, 50), (4, 30), (1, 20)):
        grid = rng.uniform(-amplitude, amplitude, (height // cell + 2, width // cell + 2, bands))
        total += np.kron(grid, np.ones((cell, cell, 1)))[:height, :width]
    pixels = np.clip(total + 128, 0, 255).astype(np.uint8)
    return Image.fromarray(pixels if bands > 1 else pixels[:, :, 0], mode)


def difference(a, b):
    assert a.shape == b.shape
    return int(np.abs(a.astype(int) - b.astype(int)).max())
