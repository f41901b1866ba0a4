"""What Loader(device="cuda") promises, on a machine that has a GPU: python tests/gpu/check_device.py [NAME ...]

Needs torch with CUDA and an installed leat (the wheel). No part of `make test`, whose machines have no GPU; there a driver of
our own stands in for CUDA's (tests/py/test_device.py).
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import leat
import numpy
import torch

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
COUNT = 403


def make(folder):
    from PIL import Image

    draw = numpy.random.default_rng(3)
    for i in range(COUNT):
        path = folder / "raw" / f"c{i % 7}" / f"{i:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, size=(72, 96, 3), dtype=numpy.uint8)).save(path)
    subprocess.run(
        ["leat", "pack", "--quiet", "--chunk-size", "200kb", str(folder / "raw"), str(folder / "set")], check=True
    )
    return str(folder / "set")


def picture(size=64):
    return leat.image("png").random_resized_crop(size).flip()


def load(url, fields, device, **more):
    settings = {"batch_size": 32, "shuffle": True, "seed": 5, "ram": "64mb", "last": "short", "linger": "1s"}
    return leat.Loader(url, fields=fields, device=device, **{**settings, **more})


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.cpu(), b)


def test_equal_to_the_cpu_bit_for_bit(url):
    for size in (64, 35):  # 35: planes are not a multiple of four
        for dtype in ("uint8", "float32", "float16", "bfloat16"):
            for gray in (False, True):
                for layout in ("nhwc", "nchw", "channels_last"):
                    field = picture(size).gray() if gray else picture(size)
                    if dtype != "uint8":
                        field = field.normalize(MEAN, STD).dtype(dtype)
                    fields = {"x": field.layout(layout), "y": leat.int("cls"), "k": leat.key(), "v": leat.valid()}
                    reference = {**fields, "x": field.layout("nchw" if layout == "channels_last" else layout)}
                    with load(url, fields, "cuda") as gpu, load(url, reference, None) as cpu:
                        batches = 0
                        for (x, y, k, v), (cx, cy, ck, cv) in zip(gpu, cpu):
                            assert x.is_cuda and y.is_cuda and v.is_cuda
                            assert same(x, cx), (size, dtype, gray, layout, batches)
                            assert same(y, cy) and list(k) == list(ck) and same(v, cv)
                            if layout == "channels_last":
                                assert x.is_contiguous(memory_format=torch.channels_last)
                            else:
                                assert x.is_contiguous()
                            batches += 1
                        assert batches == -(-COUNT // 32)


def test_slot_is_not_filled_again_before_it_was_copied(url):
    """The copies' stream is kept busy, so that copies are late by far; the agent must not overwrite what they read."""
    fields = {"x": picture(224), "i": leat.index()}
    with load(url, fields, None, slots=4) as cpu:
        expected = [(x.clone(), i.clone()) for _ in range(3) for x, i in cpu]
    got = []
    with load(url, fields, "cuda", slots=4) as gpu:
        for _ in range(3):
            for x, i in gpu:
                got.append((x, i))
                stage = gpu._keeper._stages[0]
                with torch.cuda.stream(stage.stream):
                    torch.cuda._sleep(20_000_000)  # 10 ms
    torch.cuda.synchronize()
    assert len(got) == len(expected)
    for (x, i), (ex, ei) in zip(got, expected):
        assert same(i, ei) and same(x, ex)


def test_memory_is_not_used_again_before_the_program_has_read_it(url):
    """The program's stream is after by far while its tensors are dropped and others come."""
    fields = {"x": picture(224).normalize(MEAN, STD).dtype("bfloat16").layout("channels_last"), "i": leat.index()}
    sums = []
    with load(url, fields, "cuda") as gpu:
        for _ in range(3):
            for x, _i in gpu:
                torch.cuda._sleep(20_000_000)
                sums.append(x.double().sum())
                del x
    reference = {**fields, "x": picture(224).normalize(MEAN, STD).dtype("bfloat16").layout("nchw")}
    with load(url, reference, None) as cpu:
        expected = [x.double().sum() for _ in range(3) for x, _ in cpu]
    assert [s.item() for s in sums] == [e.item() for e in expected] or torch.allclose(
        torch.stack(sums).cpu(), torch.stack(expected), rtol=1e-12
    )


def test_other_streams_and_threads(url):
    fields = {"x": picture(64), "i": leat.index()}
    with load(url, fields, None) as cpu:
        expected = [x.clone() for x, _ in cpu]
    with load(url, fields, "cuda") as gpu:
        got = []
        for x, _ in gpu:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                got.append(x.clone())
            x.record_stream(stream)
        torch.cuda.synchronize()
        assert all(same(a, b) for a, b in zip(got, expected))
        with torch.cuda.stream(torch.cuda.Stream()):
            got = [x.clone() for x, _ in gpu]
            torch.cuda.current_stream().synchronize()
    with load(url, fields, None, epoch=1) as cpu:
        assert all(same(a, b) for a, (b, _) in zip(got, cpu))


def test_state_stands_where_the_program_stands(url):
    fields = {"i": leat.index()}
    with load(url, fields, None) as cpu:
        order = [i.tolist() for (i,) in cpu]
    with load(url, fields, "cuda") as gpu:
        iterator = iter(gpu)
        for number in range(5):
            batch = next(iterator)
            assert leat.state_of(batch) == gpu.state_dict()
            state = gpu.state_dict()
            assert state["streams"][0]["position"] == 32 * (number + 1)
    with load(url, fields, "cuda") as gpu:
        gpu.load_state_dict(state)
        assert [i.tolist() for (i,) in gpu] == order[5:]


def test_out_of_memory_loses_nothing(url):
    fields = {"x": picture(224).normalize(MEAN, STD), "i": leat.index()}
    with load(url, fields, None) as cpu:
        order = [i.tolist() for _, i in cpu]
    seen, failures = [], 0
    with load(url, fields, "cuda") as gpu:
        iterator = iter(gpu)
        x, i = next(iterator)
        seen.append(i.tolist())
        del x, i
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (1 << 20)) / total)
        try:
            for _ in range(4):
                try:
                    held = next(iterator)
                    seen.append(held[1].tolist())
                    del held
                    gc.collect()
                    torch.cuda.empty_cache()
                    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 4096) / total)
                except leat.errors.OutOfMemoryError as error:
                    assert "cuda:0" in str(error), error
                    failures += 1
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        for _, i in iterator:
            seen.append(i.tolist())
    assert failures, "memory did not run out"
    assert seen == order


def test_ragged_and_text(url):
    fields = {"b": leat.bytes("png"), "r": leat.bytes("png").ragged(), "k": leat.key()}
    with load(url, fields, None) as cpu, load(url, fields, "cuda") as gpu:
        for (b, r, k), (cb, cr, ck) in zip(gpu, cpu):
            assert [bytes(v) for v in b] == [bytes(v) for v in cb] and list(k) == list(ck)
            assert r[0].is_cuda and r[1].is_cuda
            assert same(r[0], cr[0]) and same(r[1], cr[1])


def test_cuda_graph(url):
    fields = {"x": picture(64).normalize(MEAN, STD).layout("nchw"), "i": leat.index()}
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten()).cuda()
    static = torch.zeros(32, 3, 64, 64, device="cuda")
    torch.cuda.synchronize()
    with load(url, fields, "cuda", last="drop") as gpu:
        iterator = iter(gpu)
        next(iterator)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model(static)
        for x, _ in iterator:
            static.copy_(x)
            graph.replay()
            assert torch.allclose(out, model(x), atol=1e-4)


def test_compiled(url):
    fields = {"x": picture(64).normalize(MEAN, STD).layout("channels_last").dtype("float16"), "y": leat.int("cls")}
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 7),
    )
    model = model.cuda().half().to(memory_format=torch.channels_last)
    for mode in ("default", "reduce-overhead"):
        fast = torch.compile(model, mode=mode)
        with load(url, fields, "cuda", last="drop") as gpu:
            for x, y in gpu:
                loss = torch.nn.functional.cross_entropy(fast(x).float(), y)
                loss.backward()
        assert torch.isfinite(loss).item()


def test_fork_is_refused(url):
    with load(url, {"i": leat.index()}, "cuda") as gpu:
        next(iter(gpu))
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                next(iter(gpu))
            except leat.Error as error:
                code = 0 if "fork" in str(error) else 2
            except BaseException:
                code = 3
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_no_such_device(url):
    for device in ("cuda:7", 7):
        try:
            load(url, {"i": leat.index()}, device)
        except leat.Error as error:
            assert "there are" in str(error) or "there is" in str(error), error
        else:
            raise AssertionError("no error")


FSDP = """
import sys, torch, torch.distributed as dist, leat
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
dist.init_process_group("nccl")
model = FSDP(torch.nn.Linear(12, 4).cuda())
fields = {"x": leat.image("png").resize((2, 2)).normalize(0.5, 0.5).layout("nchw"), "i": leat.index()}
seen = []
with leat.Loader(sys.argv[1], batch_size=16, shuffle=True, seed=1, last="short", fields=fields, device="cuda") as loader:
    for x, i in loader:
        model(x.flatten(1)).sum().backward()
        seen += i.tolist()
assert sorted(seen) == list(range(int(sys.argv[2]))), len(seen)
dist.destroy_process_group()
"""


def test_fsdp(url):
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "train.py"
        program.write_text(FSDP)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
        subprocess.run([*command, str(program), url, str(COUNT)], check=True, timeout=120)


def test_lightning(url):
    try:
        import pytorch_lightning as lightning
    except ImportError:
        print("  no Lightning here")
        return

    seen = []

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3 * 16 * 16, 7)

        def training_step(self, batch, _):
            x, y, i = batch
            assert x.is_cuda
            seen.extend(i.tolist())
            return torch.nn.functional.cross_entropy(self.layer(x.flatten(1)), y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    fields = {"x": picture(16).normalize(MEAN, STD).layout("nchw"), "y": leat.int("cls"), "i": leat.index()}
    with load(url, fields, "cuda") as loader:
        trainer = lightning.Trainer(
            max_epochs=2,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            accelerator="gpu",
            devices=1,
        )
        trainer.fit(Model(), loader)
    assert sorted(seen) == sorted(list(range(COUNT)) * 2), len(seen)


def test_nothing_synchronises(url):
    """In a trace of twenty batches nobody waits for the device."""
    fields = {"x": picture(224).normalize(MEAN, STD).dtype("bfloat16").layout("channels_last"), "y": leat.int("cls")}
    with load(url, fields, "cuda", last="drop") as gpu:
        batches = (batch for _ in range(100) for batch in gpu)
        for _ in range(5):
            next(batches)
        torch.cuda.synchronize()
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        ) as profile:
            torch.cuda.set_sync_debug_mode("error")
            for _ in range(20):
                x, _ = next(batches)
                x.float().mean()
            torch.cuda.set_sync_debug_mode("default")
    names = {}
    for event in profile.events():
        if "ynchronize" in event.name or "Memcpy" in event.name or "memcpy" in event.name or "leat" in event.name:
            names[event.name] = names.get(event.name, 0) + 1
    print("  ", json.dumps(names))
    # the profiler itself synchronises once at its end
    assert sum(n for name, n in names.items() if "ynchronize" in name) <= 2, names


def test_next_is_quick(url):
    """The rank's own time in next() when a batch is there, between steps that launch kernels as a training does."""
    fields = {"x": picture(64).normalize(MEAN, STD).dtype("bfloat16").layout("channels_last"), "y": leat.int("cls")}
    small = torch.ones(8, device="cuda")

    def work(seconds):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            small.add_(1)

    began = time.perf_counter()
    for _ in range(1000):
        time.perf_counter()
    print(f"   the clock itself: {(time.perf_counter() - began) * 1e3:.2f} us")
    for pause in (0.002, 0.02):
        with load(url, fields, "cuda", batch_size=16, last="drop", slots=16) as gpu:
            times = []
            for _ in range(20 if pause < 0.01 else 4):
                iterator = iter(gpu)
                while True:
                    work(pause)
                    began, cpu = time.perf_counter(), time.thread_time()
                    batch = next(iterator, None)
                    times.append((time.perf_counter() - began, time.thread_time() - cpu))
                    if batch is None:
                        break
                    del batch
            times = times[30:]
            for what, column in (("wall", 0), ("processor", 1)):
                one = sorted(t[column] for t in times)
                print(
                    f"   next() every {pause * 1e3:.0f} ms, {what}: median {one[len(one) // 2] * 1e6:.1f} us, "
                    f"p90 {one[len(one) * 9 // 10] * 1e6:.1f} us, {len(one)} calls"
                )


def main():
    wanted = sys.argv[1:]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        url = make(Path(folder))
        for name, test in list(globals().items()):
            if not name.startswith("test_") or (wanted and not any(w in name for w in wanted)):
                continue
            began = time.monotonic()
            try:
                test(url)
                print(f"passed {name} ({time.monotonic() - began:.1f} s)", flush=True)
            except BaseException:
                failed += 1
                print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
