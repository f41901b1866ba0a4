"""draws.py for torch and, where it is installed, torchvision's transforms v2."""

import draws
import torch
from augment import torchvision_v2

OWN = torch.Generator()
DRAWS = {
    "torch": lambda: [torch.rand((), dtype=torch.float64).item(), torch.randn(()).item()],
    "torch.Generator": lambda: [torch.rand((), generator=OWN, dtype=torch.float64).item()],
}
try:
    v2 = torchvision_v2()
except ImportError:
    pass
else:
    PICTURE = torch.full((3, 6, 6), 0.5)
    JITTER = v2.Compose([v2.ColorJitter(0.5, 0.5), v2.GaussianNoise(), v2.RandomErasing(p=1)])
    DRAWS["torchvision"] = lambda: draws.crc(JITTER(PICTURE).numpy().tobytes())


def transform(sample):
    return draws.all_of(DRAWS, sample)


def bits(sample):
    """One of each library's generator, which tells whether several give the same."""
    import random

    import numpy

    return random.getrandbits(1), numpy.random.randint(2), torch.randint(2, ()).item(), *sample
