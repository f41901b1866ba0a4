"""draws.py for libraries of tests/requirements-augment.txt."""

import albumentations
import audiomentations
import cv2
import draws
import numba
import numpy

PICTURE = numpy.full((8, 8, 3), 128, numpy.uint8)
SOUND = numpy.full(400, 0.5, numpy.float32)
PICTURES = albumentations.Compose(
    [
        albumentations.OneOf([albumentations.RandomBrightnessContrast(p=1), albumentations.RandomGamma(p=1)], p=1),
        albumentations.GaussNoise(p=1),
        albumentations.CoarseDropout(p=1),
    ]
)
SEEDED = albumentations.Compose([albumentations.GaussNoise(p=1)], seed=5)
SOUNDS = audiomentations.Compose([audiomentations.AddGaussianNoise(p=1), audiomentations.Gain(p=1)])


@numba.njit("float64()")
def compiled():
    return numpy.random.random()


DRAWS = {
    "albumentations": lambda: draws.crc(PICTURES(image=PICTURE)["image"].tobytes()),
    "albumentations with a seed": lambda: draws.crc(SEEDED(image=PICTURE)["image"].tobytes()),
    "audiomentations": lambda: draws.crc(SOUNDS(SOUND, sample_rate=8000).tobytes()),
    "cv2": lambda: cv2.randn(numpy.zeros(2), 0, 1).ravel().tolist(),
    "numba": lambda: [compiled()],
}


def transform(sample):
    return draws.all_of(DRAWS, sample)
