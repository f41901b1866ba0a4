"""What leat.device asks of torch.cuda, on a machine without a GPU: "device" tensors lie in the host's memory, and the driver is
tests/unit/fake_cuda.c. Everything between next() and the driver then runs as it does on a GPU."""

import contextlib
import types


class Stream:
    def __init__(self, number):
        self.cuda_stream = number
        self.stream_id, self.device_index, self.device_type = number, 0, 1
        self.events = []

    def synchronize(self):
        pass

    def wait_event(self, event):
        self.events.append(event)


class Event:
    def record(self, stream):
        self.stream = stream


class Current:
    """torch._C, as far as streams go."""

    def __init__(self, program, calls):
        self.stream, self.calls = program, calls

    def _cuda_getDevice(self):
        return 0

    def _cuda_setDevice(self, index):
        pass

    def _cuda_getCurrentStream(self, index):
        return self.stream.stream_id, index, 1

    def _cuda_getCurrentRawStream(self, index):
        return self.stream.cuda_stream

    def _cuda_setStream(self, stream_id, device_index, device_type):
        self.calls.append(stream_id)  # 1: the copies' stream, 7: the program's


def make(torch, monkeypatch):
    """A module that leat.device can take for torch, with what happened in `recorded`."""
    fake = types.SimpleNamespace(recorded=[], switched=[], made=[])
    program = Stream(7)

    def empty(*size, device=None, **more):
        """Kept: torch's own allocator would not give memory away either that a stream still writes to."""
        fake.made.append(torch.empty(*size, **more))
        return fake.made[-1]

    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: fake.recorded.append(stream.cuda_stream))
    fake._C = Current(program, fake.switched)
    fake.empty = empty
    fake.device = lambda kind, index=0: torch.device("cpu")
    fake.version = types.SimpleNamespace(hip=None, cuda="13.0")
    fake.cuda = types.SimpleNamespace(
        Stream=lambda device: Stream(1),
        Event=Event,
        current_device=lambda: 0,
        current_stream=lambda device=None: program,
        device=lambda device: contextlib.nullcontext(),
        get_device_capability=lambda device: (9, 0),
        OutOfMemoryError=torch.cuda.OutOfMemoryError,
    )
    for name in ("bool", "uint8", "float32", "int64", "channels_last", "contiguous_format", "Tensor"):
        setattr(fake, name, getattr(torch, name))
    return fake
