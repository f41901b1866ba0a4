"""Batches on a GPU: Loader(..., device="cuda").

The ring's memory is registered with the driver once. Each batch is copied ahead of the user, on a stream of its own; its slot
is given back when the copy is done, and the user's stream waits for it, both by events: nothing here waits for the device.
Numbers become floats, normalised and in the layout that was asked for, on the GPU in one kernel, so that bytes travel.

Nothing of CUDA is needed to import this. torch has the memory and the streams; the driver is called from C (_device.c).
"""

from __future__ import annotations

import copy
import ctypes
import functools
import glob
import logging
import os
from collections.abc import MutableMapping

from leat import _core
from leat.errors import InvalidError, OutOfMemoryError, UnsupportedError
from leat.stages import Ahead

_log = logging.getLogger("leat")
_DEPTH = 2  # batches on the device before the user asks for them; the one that the user has comes to it
_TAIL = ("dtype", "layout", "mean", "std")  # words of a pipeline that the device does
_LIBRARY = "libcuda.so.1"
_said = set()


def _once(text):
    if text not in _said:
        _said.add(text)
        _log.warning(text)


# What is left of a pipeline for the device.


class Tail:
    """The end of an image's pipeline: type, normalisation and layout."""

    def __init__(self, dtype, layout, mean, std, channels):
        self.dtype = dtype
        self.layout = layout
        self.channels = channels
        floats = dtype != "uint8"
        std = [s if s > 0 else 1.0 for s in std]
        # as the C library computes it, in the same order: the results are the same, bit for bit
        self.scale = [1.0 / (255.0 * s) if floats else 1.0 for s in std]
        self.shift = [-m / s if floats else 0.0 for m, s in zip(mean, std)]
        self._constants = {}

    def plain(self):
        return self.dtype == "uint8" and self.layout == "nhwc"

    def constants(self, torch, device):
        """Scale and shift there: sent once, because sending them makes the program wait for the device."""
        made = self._constants.get(device)
        if made is None:
            both = (self.scale[: self.channels], self.shift[: self.channels])
            made = [torch.tensor(numbers, dtype=torch.float32, device=device) for numbers in both]
            self._constants[device] = made
        return made


def _three(text):
    """One number, or one per channel: fractions too."""

    def number(part):
        above, _, below = part.partition("/")
        return float(above) / float(below or 1)

    parts = [number(part) for part in text.split(":")]
    return parts * 3 if len(parts) == 1 else parts


def split(kind, pipeline):
    """A pipeline without what the device does, and that; the whole pipeline and None where the agent does it all."""
    words = pipeline.split()
    said = dict(word.partition("=")[::2] for word in words)
    layout = said.get("layout", "nhwc")
    floats = "mean" in said or "std" in said
    dtype = said.get("dtype", "float32" if floats else "uint8")
    colour = said.get("colour", "rgb")
    there = dtype in ("uint8", "float32", "float16", "bfloat16") and layout in ("nhwc", "nchw", "channels_last")
    if not there or said.get("bits", "8") != "8" or colour not in ("rgb", "gray") or (floats and dtype == "uint8"):
        return pipeline, None
    mean, std = _three(said.get("mean", "0")), _three(said.get("std", "1"))
    if len(mean) != 3 or len(std) != 3:
        return pipeline, None  # the agent says what is wrong with it
    tail = Tail(dtype, layout, mean, std, 3 if colour == "rgb" else 1) if kind == "image" else None
    return " ".join(word for word in words if word.partition("=")[0] not in _TAIL), tail


# The kernel.

_SOURCE = """
struct affine { float scale[4]; float shift[4]; };

struct uint8 { typedef unsigned char type; static __device__ type from(unsigned char x, float, float) { return x; } };
struct float32 {
    typedef float type;
    static __device__ type from(unsigned char x, float a, float b) { return __fadd_rn(__fmul_rn((float)x, a), b); }
};
struct float16 {
    typedef unsigned short type;
    static __device__ type from(unsigned char x, float a, float b)
    {
        type h;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(float32::from(x, a, b)));
        return h;
    }
};
struct bfloat16 {
    typedef unsigned short type;
    static __device__ type from(unsigned char x, float a, float b)
    {
        unsigned u = __float_as_uint(float32::from(x, a, b));
        return (type)((u + 0x7fff + (u >> 16 & 1)) >> 16); // to nearest, ties to even
    }
};

template <typename T, int N> struct __align__(sizeof(T) * N) pack { T v[N]; };

// N pixels per thread; a picture has a multiple of N.
template <typename F, int C, bool PLANES, int N>
__device__ void run(const unsigned char *in, typename F::type *out, unsigned long long pixels, unsigned long long plane,
                    const affine &map)
{
    typedef pack<typename F::type, N> packed;
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x * N;
    for (unsigned long long p = ((unsigned long long)blockIdx.x * blockDim.x + threadIdx.x) * N; p < pixels; p += step) {
        pack<unsigned char, N> raw[C];
        typename F::type now[N * C];
        const pack<unsigned char, N> *from = (const pack<unsigned char, N> *)(in + p * C);
        for (int k = 0; k < C; k++)
            raw[k] = from[k];
        const unsigned char *x = (const unsigned char *)raw;
        for (int i = 0; i < N * C; i++)
            now[PLANES ? i % C * N + i / C : i] = F::from(x[i], map.scale[i % C], map.shift[i % C]);
        unsigned long long at = PLANES ? p / plane * plane * C + p % plane : p * C;
        for (int k = 0; k < C; k++)
            *(packed *)(out + at + k * (PLANES ? plane : N)) = ((const packed *)now)[k];
    }
}
"""

_FUNCTION = """
extern "C" __global__ void {name}(const unsigned char *in, {dtype}::type *out, unsigned long long pixels,
                                  unsigned long long plane, affine map)
{{
    run<{dtype}, {channels}, {planes}, {each}>(in, out, pixels, plane, map);
}}
"""


def _nvrtc():
    """CUDA's run-time compiler, which comes with torch; None: it does not."""
    import torch

    major = (torch.version.cuda or "0").split(".")[0]
    root = os.path.dirname(os.path.dirname(torch.__file__))
    places = [f"libnvrtc.so.{major}", *sorted(glob.glob(f"{root}/nvidia/*/lib/libnvrtc.so.{major}*"))]
    places += sorted(glob.glob(f"{root}/torch/lib/libnvrtc*.so*"))
    places += [f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/lib64/libnvrtc.so"]
    for place in places:
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    return None


def _compile(source, capability):
    """Machine code for a device, or None and why not."""
    nvrtc = _nvrtc()
    if nvrtc is None:
        return None, "CUDA's run-time compiler (libnvrtc) was not found"
    program = ctypes.c_void_p()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"leat.cu", 0, None, None):
        return None, "CUDA's run-time compiler does not start"
    try:
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture=sm_{capability[0]}{capability[1]}".encode())
        if nvrtc.nvrtcCompileProgram(program, 1, options):
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value + 1)
            nvrtc.nvrtcGetProgramLog(program, log)
            return (
                None,
                f"CUDA's run-time compiler refuses the kernel: {log.value.decode(errors='replace').strip()[:300]}",
            )
        size = ctypes.c_size_t()
        if nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) or not size.value:
            return None, "CUDA's run-time compiler made no machine code"
        code = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetCUBIN(program, code)
        return code.raw, None
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def by_torch(raw, tail):
    """What the kernel does, by torch's own operations: for devices and installations without it."""
    import torch

    x = raw
    if tail.dtype != "uint8":
        scale, shift = tail.constants(torch, raw.device)
        x = (raw.to(torch.float32) * scale + shift).to(getattr(torch, tail.dtype))
    if tail.layout == "nhwc":
        return x
    x = x.permute(0, 3, 1, 2)
    return x if tail.layout == "channels_last" else x.contiguous()


def check(device):
    """The device that was asked for, as torch has it; an error that says why it cannot be used."""
    try:
        import torch
    except ImportError:
        raise InvalidError(f"device={device!r} needs torch, which is not installed") from None
    try:
        found = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    except (RuntimeError, TypeError):
        raise InvalidError(f'device={device!r} is not a device: say "cuda", "cuda:1" or "cpu"') from None
    if found.type == "cpu":
        return found
    if found.type != "cuda":
        raise InvalidError(
            f"device={device!r}: a loader copies to CUDA devices only; leave device out and move batches yourself"
        )
    if not torch.version.cuda and not torch.version.hip:
        raise UnsupportedError(f"device={device!r}: this torch ({torch.__version__}) was built without CUDA")
    if not torch.cuda.is_available():
        try:
            torch.cuda.init()
            why = "torch finds no device that it can use"
        except Exception as error:
            why = str(error).splitlines()[0] or type(error).__name__
        raise UnsupportedError(f"device={device!r}: {why}")
    if found.index is not None and found.index >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise InvalidError(f"device={device!r}: there are {count} devices, cuda:0 to cuda:{count - 1}")
    return found


def _why(error, what):
    """An error of torch as one of ours, in one line: torch adds advice to its own over several."""
    text = (str(error).splitlines() or [type(error).__name__])[0]
    kind = OutOfMemoryError if "out of memory" in text else UnsupportedError
    return kind(f"{what}: {text}")


def prepare(device, outputs, as_dict):
    """For a loader's outputs: as the agent makes them, and the stages for the rest (none for the CPU)."""
    found = check(device)
    if found.type == "cpu":
        return outputs, []
    kinds = {row[0]: name for name, row in _core.outputs().items()}
    tails, now = {}, []
    for name, kind, field, words, *rest in outputs:
        left, tail = words, None
        if kinds[kind] in ("image", "drawn", "boxes") and words:
            left, tail = split(kinds[kind], words)
        if tail is not None:
            tails[name] = tail
        now.append((name, kind, field, left or None, *rest))
    return now, [Device(found, tails, as_dict)]


class Device:
    """The stage that brings batches to a device."""

    def __init__(self, device, tails, as_dict):
        self._asked = device
        self._tails = tails  # of image outputs, by name
        self.as_dict = as_dict
        self._ready = None

    def set_up(self):
        """With the first batch: by then the program has chosen its device."""
        import torch

        if self._ready is not None:
            if self._pid != os.getpid():
                raise InvalidError(
                    "a loader with device= cannot be used after a fork: CUDA cannot. Open it in the child"
                )
            return
        try:
            self._begin_with(torch)
        except RuntimeError as error:  # torch's own kinds are all of these
            raise _why(error, f"{self._asked} cannot be used") from error
        self._ready = True

    def _begin_with(self, torch):
        self.torch = torch
        index = self._asked.index if self._asked.index is not None else torch.cuda.current_device()
        self.device = torch.device("cuda", index)
        self._pid = os.getpid()
        with torch.cuda.device(self.device):
            torch.cuda.current_stream().synchronize()  # once: the device's context is there from here on
            self.stream = torch.cuda.Stream(self.device)
        self._copier_plan = None
        self._streams = {}

    # torch.cuda.device() and torch.cuda.stream() do the same as these two, in ten times the time.

    def enter(self):
        """Makes the copies' stream the current one; returns what leave() takes."""
        current = self.torch._C
        before = current._cuda_getDevice()
        if before != self.device.index:
            current._cuda_setDevice(self.device.index)
        stream = current._cuda_getCurrentStream(self.device.index)
        mine = self.stream
        current._cuda_setStream(stream_id=mine.stream_id, device_index=mine.device_index, device_type=mine.device_type)
        return before, stream

    def leave(self, entered):
        before, (stream, index, kind) = entered
        current = self.torch._C
        current._cuda_setStream(stream_id=stream, device_index=index, device_type=kind)
        if before != self.device.index:
            current._cuda_setDevice(before)

    def current(self):
        """The stream that the program is on: its number for the driver, and torch's object."""
        raw = self.torch._C._cuda_getCurrentRawStream(self.device.index)
        stream = self._streams.get(raw)
        if stream is None:
            stream = self._streams[raw] = self.torch.cuda.current_stream(self.device)
        return raw, stream

    def send(self, tensor):
        """A tensor on the device, through pinned memory, which torch keeps until the copy is done."""
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def over(self, source):
        self.set_up()
        return Copying(self, source)

    def close(self):
        self._copier_plan = None

    # One plan for the batches of a loader, made with the first.

    def plan(self, item):
        plan = self._copier_plan
        if plan is None or plan.samples < item.samples:
            plan = self._copier_plan = Plan(self, item)
        return plan

    def tail(self, name):
        return self._tails.get(name)


class _Column:
    """A column of one shape, and what becomes of it."""

    def __init__(self, index, name, kind, dtype, dims, tail, torch):
        self.index = index
        self.name = name
        self.dims = dims
        self.tail = tail if tail is not None and not tail.plain() else None
        self.by_torch = False  # whether torch does what the kernel would
        self.raw_dtype = (
            torch.bool if _core.dtype_name(dtype) == "bool" or kind == _VALID else _torch_dtype(torch, dtype)
        )
        if self.tail:
            height, width, channels = dims
            self.dtype = getattr(torch, self.tail.dtype)
            self.plane = height * width
            self.shape = (height, width, channels) if self.tail.layout == "nhwc" else (channels, height, width)
            last = self.tail.layout == "channels_last"
            self.format = torch.channels_last if last else torch.contiguous_format
        else:
            self.dtype, self.shape, self.format = self.raw_dtype, dims, torch.contiguous_format

    def maker(self, samples, stage):
        """A function that makes memory for the column on the device. Its arguments are bound once: looking them up for every
        batch took longer than the call."""
        empty, device = stage.torch.empty, stage.device
        if self.by_torch:
            return functools.partial(empty, (samples, *self.dims), dtype=self.raw_dtype, device=device)
        shape = (samples, *self.shape)
        return functools.partial(empty, shape, dtype=self.dtype, device=device, memory_format=self.format)


_VALID = _core.outputs()["valid"][0]


def _torch_dtype(torch, code):
    name = _core.dtype_name(code)
    if not hasattr(torch, name):
        raise UnsupportedError(f"torch has no {name}")
    return getattr(torch, name)


class Plan:
    """How the batches of a loader get to the device."""

    def __init__(self, stage, item):
        torch = stage.torch
        self.samples = item.samples
        self.columns, self.ragged, self.names = [], [], []
        for index, (name, kind, dtype, dims, _, _, ends, _, _) in enumerate(item.layout()):
            self.names.append(name)
            if ends < 0:
                self.columns.append(_Column(index, name, kind, dtype, dims, stage.tail(name), torch))
            else:
                self.ragged.append(index)
        self.copier = None
        if not torch.version.hip:
            try:
                self.copier = _core.Copier(library=_LIBRARY, stream=stage.stream.cuda_stream)
            except OSError as error:
                _once(f"batches are copied by torch, which is slower: {error}")
        self.raw = []
        if self.copier is not None:
            self._load(stage)
        self.converted = [column for column in self.columns if column.by_torch]
        self.makers = [column.maker(self.samples, stage) for column in self.columns]

    def _load(self, stage):
        torch = stage.torch
        functions, source = {}, _SOURCE
        for column in self.columns:
            if not column.tail:
                continue
            each = 4 if column.plane % 4 == 0 else 1
            planes = column.tail.layout == "nchw"
            name = f"leat_{column.tail.dtype}_{column.tail.channels}_{'planes' if planes else 'pixels'}_{each}"
            column.function, column.each = name, each
            if name not in functions:
                source += _FUNCTION.format(
                    name=name,
                    dtype=column.tail.dtype,
                    channels=column.tail.channels,
                    planes="true" if planes else "false",
                    each=each,
                )
                functions[name] = None
        if functions:
            code, problem = _compile(source, torch.cuda.get_device_capability(stage.device))
            if code is None:
                _once(f"pictures are converted by torch, which is slower: {problem}")
            else:
                functions = dict(zip(functions, self.copier.load(code, list(functions))))
        for column in self.columns:
            handle = functions.get(getattr(column, "function", None))
            column.by_torch = column.tail is not None and handle is None
            if handle is None:
                self.copier.column(column.index, 0, 0, 0, 1, (1,) * 4, (0,) * 4)
                continue
            pixels = torch.empty(
                (self.samples, column.plane * column.tail.channels), dtype=torch.uint8, device=stage.device
            )
            self.raw.append(pixels)
            scale, shift = column.tail.scale, column.tail.shift
            self.copier.column(
                column.index, handle, pixels.data_ptr(), column.plane, column.each, (*scale, 0.0), (*shift, 0.0)
            )


class _Arriving:
    """A batch on its way to the device."""

    __slots__ = ("_state", "began", "columns", "copy", "epoch", "late", "position", "stage", "tensors")

    def __init__(self, stage, item):
        self.stage = stage
        self.epoch, self.began, self.position = item.epoch, item.began, item.position
        self._state = item.state()
        self.copy = None
        self.tensors = []
        self.late = False  # there is something that only its own to() can bring over

    def state(self):
        return self._state

    def values(self):
        """For the stream that the user is on: it waits for the copies, and the memory is not used again before it has."""
        raw, stream = self.stage.current()
        self.copy.wait(raw)
        for tensor in self.tensors:
            tensor.record_stream(stream)
        return _walk(self.columns, self.ask) if self.late else self.columns

    def send(self, thing):
        """A tensor of a transform's, on its way. Other things with a to() are left for ask()."""
        if not isinstance(thing, self.stage.torch.Tensor):
            self.late = self.late or hasattr(thing, "to")
            return thing
        if thing.device.type != "cpu":
            return thing
        self.tensors.append(self.stage.send(thing))
        return self.tensors[-1]

    def ask(self, thing):
        """On the program's stream: only the one who wrote it knows which memory it then has."""
        if isinstance(thing, (self.stage.torch.Tensor, type)) or not callable(getattr(thing, "to", None)):
            return thing
        return thing.to(self.stage.device)

    def release(self):
        self.columns = self.tensors = None


class _Event:
    """What leat._core.Copy is, by torch."""

    def __init__(self, stage, keep=None):
        self._stage = stage
        self._event = stage.torch.cuda.Event()
        self._event.record(stage.stream)
        self._keep = keep

    def wait(self, raw):
        self._stage.current()[1].wait_event(self._event)


def _walk(thing, leaf):
    """The same thing with what leaf() makes of everything in it that is no container."""
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return type(thing)(*[_walk(value, leaf) for value in thing])
    if isinstance(thing, (list, tuple)):
        return type(thing)([_walk(value, leaf) for value in thing])
    if isinstance(thing, MutableMapping):
        values = {key: _walk(value, leaf) for key, value in thing.items()}
        if type(thing) is dict:
            return values
        made = copy.copy(thing)  # a defaultdict, a tokenizer's result: what else it has stays
        made.update(values)
        return made
    if hasattr(thing, "__dataclass_fields__") and not isinstance(thing, type):
        made = copy.copy(thing)
        for name in thing.__dataclass_fields__:
            object.__setattr__(made, name, _walk(getattr(thing, name), leaf))  # frozen ones too
        return made
    return leaf(thing)


class Copying(Ahead):
    """One pass of batches to the device."""

    def __init__(self, stage, source):
        super().__init__(source, _DEPTH)
        self._stage = stage

    def begin(self, item):
        stage = self._stage
        torch = stage.torch
        try:
            before = stage.enter()
            try:
                return self._begin_batch(item) if isinstance(item, _core.Batch) else self._begin_any(item)
            finally:
                stage.leave(before)
        except torch.cuda.OutOfMemoryError as error:
            item.release()
            raise OutOfMemoryError(
                f"no memory for a batch on {stage.device}, where {_DEPTH} lie ahead of the program: {str(error).splitlines()[0]}"
            ) from error
        except BaseException:
            item.release()
            raise

    def _begin_batch(self, item):
        stage = self._stage
        plan = stage.plan(item)
        work = _Arriving(stage, item)
        values = [None] * len(plan.names)
        samples = item.samples
        if plan.ragged:
            self._copy_ragged(plan, item, values, work.tensors)
        if plan.copier is None:
            columns = item.values()
            columns = list(columns.values()) if isinstance(columns, dict) else columns
            for column in plan.columns:
                tensor = columns[column.index].to(stage.device)
                values[column.index] = by_torch(tensor, column.tail) if column.tail else tensor
                work.tensors.append(values[column.index])
            del columns
            item.release()
            work.copy = _Event(stage)
        else:
            makers = plan.makers
            if samples != plan.samples:  # the last of an epoch
                makers = [column.maker(samples, stage) for column in plan.columns]
            tensors = [make() for make in makers]
            work.copy = plan.copier.copy(item, tuple([tensor.data_ptr() for tensor in tensors]))
            if not plan.copier.registered:
                _once(
                    "the driver refuses to register the batches' memory: copies to the device keep the processor busy"
                )
            if not plan.ragged and not plan.converted:
                work.tensors = tensors
                work.columns = dict(zip(plan.names, tensors)) if stage.as_dict else tuple(tensors)
                return work
            for column, tensor in zip(plan.columns, tensors):
                values[column.index] = by_torch(tensor, column.tail) if column.by_torch else tensor
                work.tensors.append(values[column.index])
            if plan.converted:
                work.copy = _Event(stage, (work.copy, tensors))
        work.columns = dict(zip(plan.names, values)) if stage.as_dict else tuple(values)
        return work

    def _copy_ragged(self, plan, item, values, tensors):
        """Numbers go to the device; text, bytes and JSON stay with the program, in memory of their own."""
        stage = self._stage
        columns = item.values()
        columns = list(columns.values()) if isinstance(columns, dict) else columns
        for index in plan.ragged:
            column = columns[index]
            if isinstance(column, tuple):
                values[index] = tuple(part.to(stage.device) for part in column)
                tensors.extend(values[index])
            elif isinstance(column, _core.Ragged) and column._varying:
                values[index] = column.to(stage.device)
                tensors.extend((values[index].values, values[index].offsets))
            else:
                values[index] = copy.deepcopy(column)

    def _begin_any(self, item):
        """What a transform made: whatever tensors are in it."""
        work = _Arriving(self._stage, item)
        work.columns = _walk(item.values(), work.send)
        work.copy = _Event(self._stage)
        item.release()
        return work

    def finish(self, work):
        return work

    def abandon(self, work):
        work.release()
