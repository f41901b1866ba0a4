"""Augmentations through `leat image`: what was drawn, and the same by torchvision. For tests/py/test_augment*.py."""

import re
import sys
import types

from conftest import ROOT

PEERS = ROOT / ".venv" / "peers"


def use_peers():
    """Lets packages of .venv/peers be imported. The registry's torchvision wants CUDA for its own operators, and anyone who
    finds it (Lightning looks for it) fails at once unless they are left out."""
    if str(PEERS) not in sys.path:
        sys.path.append(str(PEERS))
    sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))


def torchvision_v2():
    """transforms.v2 and its functional part, which need no operators of torchvision's own."""
    import torch

    use_peers()
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    return v2


def drawn_ops(line):
    """[(name, [numbers], word or None)] of a line that `leat image` prints about a draw."""
    _, _, text = line.partition(";")
    ops = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        name, *values = piece.split()
        word = values.pop() if values and re.fullmatch("[a-z]+", values[-1]) else None
        ops.append((name, [float(v) for v in values], word))
    return ops


def run_op(image, op, fill=None):
    """One operation by torchvision, on a uint8 tensor of channels, rows and columns."""
    functional = torchvision_v2().functional
    name, v, mode = op
    height, width = image.shape[-2:]
    if name == "affine":
        centre = [v[6] + width * 0.5, v[7] + height * 0.5]
        return functional.affine(
            image, v[0], [v[1], v[2]], v[3], [v[4], v[5]], interpolation=mode, fill=fill, center=centre
        )
    if name == "perspective":
        return functional.perspective(image, None, None, interpolation=mode, fill=fill, coefficients=v)
    if name == "erase":
        x, y, w, h = map(int, v[:4])
        out = image.clone()
        out[:, y : y + h, x : x + w] = functional.to_dtype(out.new_tensor(v[4:]), out.dtype)[: len(out), None, None]
        return out
    simple = {
        "brightness": lambda: functional.adjust_brightness(image, v[0]),
        "contrast": lambda: functional.adjust_contrast(image, v[0]),
        "saturation": lambda: functional.adjust_saturation(image, v[0]),
        "hue": lambda: functional.adjust_hue(image, v[0]),
        "grayscale": lambda: functional.rgb_to_grayscale(image, num_output_channels=len(image)),
        "solarize": lambda: functional.solarize(image, v[0]),
        "posterize": lambda: functional.posterize(image, int(v[0])),
        "invert": lambda: functional.invert(image),
        "equalize": lambda: functional.equalize(image),
        "autocontrast": lambda: functional.autocontrast(image),
        "sharpness": lambda: functional.adjust_sharpness(image, v[0]),
        "gaussian_blur": lambda: functional.gaussian_blur(image, [int(v[0])] * 2, [v[1]] * 2),
    }
    return simple[name]()


def run_ops(image, ops, fill=None):
    import torch

    mixture = kept = weight = None
    for op in ops:
        if op[0] == "mix":
            kept, mixture, weight = image, torch.tensor(op[1][0]) * image, None
        elif op[0] in ("chain", "mixed"):
            if weight is not None:
                mixture = mixture.add_(torch.tensor(weight) * image)
            weight = op[1][0] if op[0] == "chain" else None
            image = kept if op[0] == "chain" else mixture.to(kept.dtype)
        else:
            image = run_op(image, op, fill)
    return image


def tensor_of(pixels):
    import torch

    pixels = pixels if pixels.ndim == 3 else pixels[:, :, None]
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).contiguous()


def pixels_of(tensor):
    array = tensor.permute(1, 2, 0).numpy()
    return array if array.shape[2] == 3 else array[:, :, 0]
