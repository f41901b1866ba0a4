"""Image preparation against what people use today: tables, and bench/out/prep.json.

python bench/bench_prep.py [--build build/release] [--rounds 5] [--seconds 1.5] [--sets small large] [--only NAME …]
                           [--python OTHER/bin/python …] [--photographs DIR]

Every contender decodes the same files from memory and makes 224x224 uint8 pixels by RandomResizedCrop and a flip,
pinned to one core, in turn, `rounds` times. Rates are pictures per second of CPU time of the whole process, which is
what a core can do however busy the machine is; the spread is that of the rounds. Contenders that are not installed
are named with the reason; bench/prep_venv makes an environment with all that is available. --python adds an interpreter
for the resize alone: Pillow-SIMD cannot live beside Pillow. --photographs adds the sets that bench/photographs.py made.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETS = ["photo", "photo-large", "small", "yuv444", "progressive", "large", "mixed"]
OURS = ["bare", "exact", "fast"]
RIVALS = ["pillow", "torchvision", "opencv", "ffcv-recipe", "spdl", "torchcodec", "dali"]
RECIPES = ["jitter", "trivial", "dino"]
RECIPE_RIVALS = ["torchvision", "torchvision-tensor", "dali"]
RESIZERS = ["pillow", "opencv-area", "opencv-linear", "torch"]


# ---- contenders: name -> function(list of bytes) -> function(index), called again and again


def draw_crop(width, height):
    """torchvision's RandomResizedCrop, for contenders that have none of their own."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        aspect = (4 / 3) ** random.uniform(-1, 1)
        w, h = round((area * aspect) ** 0.5), round((area / aspect) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def pillow(files):
    import io

    import numpy
    from PIL import Image

    def run(i):
        image = Image.open(io.BytesIO(files[i])).convert("RGB")
        x, y, w, h = draw_crop(*image.size)
        image = image.crop((x, y, x + w, y + h)).resize((224, 224), Image.BILINEAR)
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        return numpy.asarray(image)

    return run


def torchvision_v2():
    import types

    import torch

    # The registry's wheel wants CUDA for its own operators; the transforms need none of them.
    sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    return v2


def torchvision(files):
    """ImageFolder's loader and the transforms of every example: Pillow decodes, tensors come last."""
    import io

    from PIL import Image

    v2 = torchvision_v2()
    chain = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.PILToTensor()])
    return lambda i: chain(Image.open(io.BytesIO(files[i])).convert("RGB"))


def opencv(files):
    import cv2
    import numpy

    cv2.setNumThreads(1)

    def run(i):
        image = cv2.cvtColor(cv2.imdecode(numpy.frombuffer(files[i], numpy.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
        x, y, w, h = draw_crop(image.shape[1], image.shape[0])
        image = cv2.resize(image[y : y + h, x : x + w], (224, 224), interpolation=cv2.INTER_AREA)
        return cv2.flip(image, 1) if random.random() < 0.5 else image

    return run


def ffcv_recipe(files):
    """What FFCV's RandomResizedCropRGBImageDecoder does (whole decode by libjpeg-turbo, OpenCV's area resize), from
    packages that can be installed."""
    import cv2
    import simplejpeg

    cv2.setNumThreads(1)

    def run(i):
        image = simplejpeg.decode_jpeg(files[i], colorspace="RGB", fastdct=False, fastupsample=False)
        x, y, w, h = draw_crop(image.shape[1], image.shape[0])
        image = cv2.resize(image[y : y + h, x : x + w], (224, 224), interpolation=cv2.INTER_AREA)
        return cv2.flip(image, 1) if random.random() < 0.5 else image

    return run


def spdl(files):
    import spdl.io
    from PIL import Image  # for the size, which the crop needs first

    sizes = []
    import io

    for data in files:
        sizes.append(Image.open(io.BytesIO(data)).size)

    def run(i):
        x, y, w, h = draw_crop(*sizes[i])
        steps = f"crop={w}:{h}:{x}:{y},scale=224:224" + (",hflip" if random.random() < 0.5 else "") + ",format=rgb24"
        return spdl.io.to_numpy(spdl.io.load_image(files[i], filter_desc=steps))

    return run


def torchcodec(files):
    import torch
    from torchcodec.decoders import decode_image

    torch.set_num_threads(1)

    def run(i):
        image = decode_image(torch.frombuffer(bytearray(files[i]), dtype=torch.uint8))
        x, y, w, h = draw_crop(image.shape[-1], image.shape[-2])
        crop = image[None, :, y : y + h, x : x + w]
        return torch.nn.functional.interpolate(crop, size=(224, 224), mode="bilinear", antialias=True)

    return run


def dali(files):
    """The CPU half of NVIDIA's ImageNet example: decode only the crop, triangular resize, flip."""
    import numpy
    from nvidia.dali import fn, pipeline_def, types

    batch = 16
    arrays = [numpy.frombuffer(data, numpy.uint8) for data in files]
    state = {"at": 0}

    def source():
        state["at"] += batch
        return [arrays[(state["at"] + k) % len(arrays)] for k in range(batch)]

    @pipeline_def(batch_size=batch, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def chain():
        data = fn.external_source(source=source, dtype=types.UINT8)
        images = fn.decoders.image_random_crop(
            data, device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10
        )
        images = fn.resize(images, resize_x=224, resize_y=224, interp_type=types.INTERP_TRIANGULAR)
        return fn.flip(images, horizontal=fn.random.coin_flip())

    pipe = chain()
    pipe.build()

    def run(i):
        if i % batch == 0:
            pipe.run()

    return run


# ---- recipes: what bench_prep.c's `recipes` says, in others' words


def torchvision_views(v2, recipe):
    """[(how often, transform)]"""
    flip = v2.RandomHorizontalFlip()
    jitter = v2.ColorJitter(0.4, 0.4, 0.2, 0.1)
    if recipe == "jitter":
        blur, solarize = v2.GaussianBlur(23, (0.1, 2.0)), v2.RandomSolarize(128, p=1)
        return [(1, v2.Compose([v2.RandomResizedCrop(224, antialias=True), flip, jitter, blur, solarize]))]
    if recipe == "trivial":
        return [(1, v2.Compose([v2.RandomResizedCrop(224, antialias=True), flip, v2.TrivialAugmentWide()]))]
    cubic = v2.InterpolationMode.BICUBIC
    colours = [flip, v2.RandomApply([jitter], 0.8), v2.RandomGrayscale(0.2)]
    large = v2.RandomResizedCrop(224, (0.4, 1.0), interpolation=cubic, antialias=True)
    small = v2.RandomResizedCrop(96, (0.05, 0.4), interpolation=cubic, antialias=True)
    blurs = {k: v2.GaussianBlur(k, (0.1, 2.0)) for k in (23, 9)}
    return [
        (1, v2.Compose([large, *colours, blurs[23]])),
        (1, v2.Compose([large, *colours, v2.RandomApply([blurs[23]], 0.1), v2.RandomSolarize(128, p=0.2)])),
        (8, v2.Compose([small, *colours, v2.RandomApply([blurs[9]], 0.5)])),
    ]


def recipe_torchvision(recipe, tensors):
    """On Pillow's images and made tensors last, or on uint8 tensors from the first step on; one decode for all views."""

    def make(files):
        import io

        from PIL import Image

        v2 = torchvision_v2()
        views, convert = torchvision_views(v2, recipe), v2.PILToTensor()

        def run(i):
            image = Image.open(io.BytesIO(files[i])).convert("RGB")
            image = convert(image) if tensors else image
            made = [view(image) for count, view in views for _ in range(count)]
            return made if tensors else [convert(one) for one in made]

        return run

    return make


def dali_views(fn, types, auto_aug, recipe, images):
    def crop(size, scale, interp):
        made = fn.random_resized_crop(images, size=size, random_area=scale, interp_type=interp)
        return fn.flip(made, horizontal=fn.random.coin_flip())

    def jitter(made):
        return fn.color_twist(
            made,
            brightness=fn.random.uniform(range=[0.6, 1.4]),
            contrast=fn.random.uniform(range=[0.6, 1.4]),
            saturation=fn.random.uniform(range=[0.8, 1.2]),
            hue=fn.random.uniform(range=[-36, 36]),
        )

    def blur(made, window):
        return fn.gaussian_blur(made, window_size=window, sigma=fn.random.uniform(range=[0.1, 2.0]))

    def solarize(made):
        mask = made >= 128
        return mask * (255 - made) + (mask ^ True) * made

    linear, cubic = types.INTERP_TRIANGULAR, types.INTERP_CUBIC
    if recipe == "jitter":
        return [fn.cast(solarize(blur(jitter(crop(224, [0.08, 1.0], linear)), 23)), dtype=types.UINT8)]
    if recipe == "trivial":
        return [auto_aug.trivial_augment.trivial_augment_wide(crop(224, [0.08, 1.0], linear))]
    # Without conditionals every view is jittered and blurred as often as DINO does it on average: the first large one
    # blurred, half of the small ones.
    views = [blur(jitter(crop(224, [0.4, 1.0], cubic)), 23), jitter(crop(224, [0.4, 1.0], cubic))]
    for k in range(8):
        made = jitter(crop(96, [0.05, 0.4], cubic))
        views.append(blur(made, 9) if k % 2 else made)
    return views


def recipe_dali(recipe):
    def make(files):
        import numpy
        from nvidia.dali import auto_aug, fn, pipeline_def, types
        from nvidia.dali.auto_aug import trivial_augment  # noqa: F401

        batch = 16
        arrays = [numpy.frombuffer(data, numpy.uint8) for data in files]
        state = {"at": 0}

        def source():
            state["at"] += batch
            return [arrays[(state["at"] + k) % len(arrays)] for k in range(batch)]

        @pipeline_def(batch_size=batch, num_threads=1, device_id=None, prefetch_queue_depth=1, enable_conditionals=True)
        def chain():
            data = fn.external_source(source=source, dtype=types.UINT8)
            images = fn.decoders.image(data, device="cpu")
            return tuple(dali_views(fn, types, auto_aug, recipe, images))

        pipe = chain()
        pipe.build()

        def run(i):
            if i % batch == 0:
                pipe.run()

        return run

    return make


def resize_pillow(pixels):
    from PIL import Image

    image = Image.fromarray(pixels)
    return lambda i: image.resize((224, 224), Image.BILINEAR)


def resize_opencv(mode):
    def make(pixels):
        import cv2

        cv2.setNumThreads(1)
        return lambda i: cv2.resize(pixels, (224, 224), interpolation=getattr(cv2, mode))

    return make


def resize_torch(pixels):
    import torch

    torch.set_num_threads(1)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    return lambda i: torch.nn.functional.interpolate(tensor, size=(224, 224), mode="bilinear", antialias=True)


DECODERS = {
    "pillow": pillow,
    "torchvision": torchvision,
    "opencv": opencv,
    "ffcv-recipe": ffcv_recipe,
    "spdl": spdl,
    "torchcodec": torchcodec,
    "dali": dali,
}
for _recipe in RECIPES:
    DECODERS[f"{_recipe}/torchvision"] = recipe_torchvision(_recipe, False)
    DECODERS[f"{_recipe}/torchvision-tensor"] = recipe_torchvision(_recipe, True)
    DECODERS[f"{_recipe}/dali"] = recipe_dali(_recipe)
RESIZE = {
    "pillow": resize_pillow,
    "opencv-area": resize_opencv("INTER_AREA"),
    "opencv-linear": resize_opencv("INTER_LINEAR"),
    "torch": resize_torch,
}


def worker(what, name, folder, seconds):
    """Runs in a process of its own; prints one line of JSON."""
    if what == "resize":
        import numpy

        run = RESIZE[name](numpy.random.default_rng(1).integers(0, 256, (500, 500, 3), dtype=numpy.uint8))
        count = 1 << 20
    else:
        files = [path.read_bytes() for path in sorted(Path(folder).iterdir())]
        run, count = DECODERS[name](files), len(files)
    for i in range(16):
        run(i % count)
    cpu, wall, done = time.process_time(), time.perf_counter(), 0
    while time.perf_counter() - wall < seconds or done % 16:
        run(done % count)
        done += 1
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"images_per_s": done / wall, "cpu_s_per_1000": 1000 * cpu / done, "peak_rss_kib": rss}))


# ---- the measurement


def call(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        said = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return None, said[:200]
    return json.loads(lines[-1]), None


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def interleaved(commands, rounds):
    """commands: name -> command line. Every round runs each once; one that fails is dropped with its reason."""
    rows, reasons = {name: [] for name in commands}, {}
    for _ in range(rounds):
        for name, command in commands.items():
            if name in reasons:
                continue
            row, reason = call(command)
            if reason:
                reasons[name] = reason
            else:
                rows[name].append(row)
    result = {}
    for name, measured in rows.items():
        if name in reasons:
            continue
        result[name] = {
            "images_per_cpu_s": spread([1000 / row["cpu_s_per_1000"] for row in measured]),
            "cpu_s_per_1000": spread([row["cpu_s_per_1000"] for row in measured]),
            "images_per_s": spread([row["images_per_s"] for row in measured]),
            "peak_rss_mib": max(row["peak_rss_kib"] for row in measured) / 1024,
        }
    return result, reasons


def show(title, result, reasons, base):
    print(f"\n{title}")
    print(f"  {'':16}  pictures per CPU second (min … max)     CPU s per 1,000   against {base}   peak MiB")
    for name, row in result.items():
        rate, cost = row["images_per_cpu_s"], row["cpu_s_per_1000"]
        ratio = rate["median"] / result[base]["images_per_cpu_s"]["median"] if base in result else float("nan")
        rates = f"{rate['median']:8.0f}  ({rate['min']:.0f} … {rate['max']:.0f})"
        print(f"  {name:16}  {rates:38}  {cost['median']:12.3f}   {ratio:13.2f}   {row['peak_rss_mib']:9.0f}")
    for name, reason in reasons.items():
        print(f"  {name:16}  not here: {reason}")


def versions():
    """Of what is installed beside this interpreter."""
    import importlib.metadata

    found = {}
    for name in ("torch", "torchvision", "pillow", "nvidia-dali-cuda130", "opencv-python-headless", "spdl-io"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def recipes(program, pinned, folder, options):
    """Whole recipes on the small set: crop, flip, ColorJitter, blur and solarize; TrivialAugment; DINO's ten views."""
    files, report = sorted(map(str, folder.iterdir())), {}
    for recipe in RECIPES:
        commands = {"leat": [*pinned, program, "--what", recipe, "--seconds", str(options.seconds), *files]}
        for rival in RECIPE_RIVALS:
            commands[rival] = [*pinned, sys.executable, __file__, "--worker", "decode", f"{recipe}/{rival}", str(folder),
                               str(options.seconds)]  # fmt: skip
        result, reasons = interleaved(commands, options.rounds)
        report[recipe] = {"one_core": result, "not_here": reasons}
        show(f"{recipe}: one core, pictures (not views) per second", result, reasons, "leat")
    return report


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        return worker(*sys.argv[2:5], float(sys.argv[5]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--sets", nargs="*", choices=SETS, default=SETS)
    parser.add_argument("--only", nargs="+", choices=RIVALS, default=RIVALS)  # beside ours
    parser.add_argument("--python", nargs="*", default=[])
    parser.add_argument("--photographs", type=Path)
    options = parser.parse_args()
    print(", ".join(f"{name} {version}" for name, version in versions().items() if version))
    sys.stdout.reconfigure(line_buffering=True)  # a run that is cut short has shown what it has
    subprocess.run(["ninja", "-C", options.build, "bench/bench_prep"], check=True, stdout=subprocess.DEVNULL)
    program = str(Path(options.build) / "bench" / "bench_prep")
    core = str(max(os.sched_getaffinity(0)))
    pinned = ["taskset", "-c", core]
    report = {"versions": versions(), "sets": {}, "rounds": options.rounds, "seconds": options.seconds}
    with tempfile.TemporaryDirectory() as temporary:
        folders = {name: Path(temporary) / name for name in options.sets}
        for name, folder in folders.items():
            folder.mkdir()
            subprocess.run([program, "--make", name, str(folder)], check=True)
        if options.photographs:
            folders.update({folder.name: folder for folder in sorted(options.photographs.iterdir())})
        for name, folder in folders.items():
            files = sorted(map(str, folder.iterdir()))
            size = sum(os.path.getsize(f) for f in files) / len(files)
            commands = {}
            for what in OURS:
                if what == "bare" and name == "mixed":
                    continue  # libjpeg alone decodes no PNG
                commands[what] = [*pinned, program, "--what", what, "--seconds", str(options.seconds), *files]
            for rival in options.only:
                commands[rival] = [*pinned, sys.executable, __file__, "--worker", "decode", rival, str(folder),
                                   str(options.seconds)]  # fmt: skip
            result, reasons = interleaved(commands, options.rounds)
            report["sets"][name] = {"mean_file_bytes": size, "one_core": result, "not_here": reasons}
            show(f"{name}: {len(files)} files of {size / 1e3:.0f} kB, one core", result, reasons, "exact")
            cores = str(len(os.sched_getaffinity(0)))
            commands = {what: [program, "--what", what, "--threads", cores, "--pin", "--seconds", str(options.seconds),
                               *files] for what in OURS if not (what == "bare" and name == "mixed")}  # fmt: skip
            result, reasons = interleaved(commands, min(3, options.rounds))
            report["sets"][name]["all_cores"] = result
            show(f"{name}: all {cores} cores (rates per CPU second)", result, reasons, "exact")
        folder = Path(temporary) / "recipes"
        folder.mkdir()
        subprocess.run([program, "--make", "small", str(folder)], check=True)
        report["recipes"] = recipes(program, pinned, folder, options)
    commands = {f"leat-{level}": [*pinned, program, "--what", "resize", "--level", level, "--seconds",
                                  str(options.seconds), "--own", "1"]
                for level in ("avx512", "avx2", "scalar")}  # fmt: skip
    for name in RESIZERS:
        commands[name] = [*pinned, sys.executable, __file__, "--worker", "resize", name, "-", str(options.seconds)]
    for other in options.python:
        commands[f"pillow of {Path(other).parents[1].name}"] = [*pinned, other, __file__, "--worker", "resize",
                                                                "pillow", "-", str(options.seconds)]  # fmt: skip
    result, reasons = interleaved(commands, options.rounds)
    report["resize"] = {"one_core": result, "not_here": reasons}
    show("resize alone, 500x500 to 224x224", result, reasons, next(iter(result), ""))
    out = ROOT / "bench" / "out"
    out.mkdir(exist_ok=True)
    (out / "prep.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
