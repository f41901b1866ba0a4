"""Things that transforms of whole batches do, for test_transform_same.py: its workers import them from here, and its model
of a batch, which knows nothing of Leat, goes through the same functions."""

import copy
import random

import numpy

BATCH = 6
HUGE = 7  # a sample whose ragged values do not fit into a slot


def sample_of(i):
    """Sample i of the dataset."""
    draw = numpy.random.default_rng(i)
    rows = 60_000 if i == HUGE else int(draw.integers(0, 4))
    return {
        "n": i,
        "f": i / 4,
        "s": "ä" * (i % 3) + str(i),
        "b": draw.bytes(200_000 if i == HUGE else i % 4),
        "j": {"i": i, "l": [1, None]},
        "a": draw.random((rows, 2), dtype="float32"),
        "q": draw.integers(0, 99, (i % 3, 2 - i % 2), dtype="int16"),
        "z": draw.integers(0, 99, (2, 3), dtype="int32"),
    }


class Rows(list):
    """The model of a ragged column: values that are views of one array."""

    kind = "ragged"

    @classmethod
    def of(cls, values, tensors):
        whole = numpy.concatenate([value.reshape(-1) for value in values])
        ends = numpy.cumsum([value.size for value in values])
        by_rows = {value.shape[1:] for value in values}
        rows = cls()
        rows.values = whole.reshape(-1, *by_rows.pop()) if len(by_rows) == 1 else whole
        if tensors:
            import torch

            whole, rows.values = torch.from_numpy(whole), torch.from_numpy(rows.values)
        rows.extend(whole[end - value.size : end].reshape(value.shape) for value, end in zip(values, ends))
        return rows

    def tolist(self):
        return [copy.deepcopy(value) for value in self]

    def to(self, device):
        return self.__deepcopy__({})

    def __copy__(self):
        return self.__deepcopy__({})

    def __deepcopy__(self, memo):
        made = Rows(copy.deepcopy(list(self), memo))
        made.kind = "copy"
        return made

    def __getitem__(self, i):
        return list(self)[i] if isinstance(i, slice) else super().__getitem__(i)


def model_batch(indices, tensors):
    """What the loader should hand over for these samples, as a dict."""
    samples = [sample_of(int(i)) for i in indices]
    batch = {name: [sample[name] for sample in samples] for name in samples[0]}
    for name, dtype in (("n", "int64"), ("f", "float32"), ("z", "int32")):
        batch[name] = numpy.array(batch[name], dtype)
        if tensors:
            import torch

            batch[name] = torch.from_numpy(batch[name])
    for name in ("a", "q"):
        batch[name] = Rows.of(batch[name], tensors)
    batch["b"] = [memoryview(bytearray(value)) for value in batch["b"]]
    return batch


def is_tensor(value):
    return hasattr(value, "data_ptr")


def plain(value):
    """Something as the test compares it: types, shapes and numbers, but not whose memory it is."""
    kind = {"Ragged": "ragged", "RaggedTensors": "copy"}.get(type(value).__name__) or getattr(value, "kind", None)
    if kind:
        return kind, [plain(one) for one in value]
    if is_tensor(value):
        facts = "tensor", type(value).__name__, str(value.dtype), value.requires_grad, sorted(vars(value).items())
        return *facts, tuple(value.shape), value.detach().contiguous().numpy().tobytes()
    if isinstance(value, numpy.ndarray):
        return "array", value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, (bytes, memoryview)):
        return "bytes", bytes(value)
    if isinstance(value, dict):
        return "dict", [(name, plain(one)) for name, one in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(one) for one in value]
    return type(value).__name__, value


def compared(batch):
    """A batch in comparable form; bytes as a list, for the model has them in one."""
    return {
        name: plain(list(v) if name in ("b", "s") and type(v).__name__ == "Ragged" else v) for name, v in batch.items()
    }


# One step each: changes the batch that it is given. `draw` is the same for all who make the step.


def adds(batch, name, draw):
    batch[name] += 1


def writes(batch, name, draw):
    batch[name][draw.randrange(BATCH)] = 5


def gets_a_dimension(batch, name, draw):
    if is_tensor(batch[name]):
        batch[name].unsqueeze_(0)
    else:
        batch[name].shape = (1, *batch[name].shape)


def changes_its_type(batch, name, draw):
    if is_tensor(batch[name]):
        batch[name].data = batch[name].double()
    else:
        batch[name].dtype = "u1"


def is_transposed(batch, name, draw):
    if is_tensor(batch[name]):
        batch[name].transpose_(0, -1)
    else:
        batch[name] = batch[name].T


def is_replaced(batch, name, draw):
    batch[name] = batch[name] * 2


def goes(batch, name, draw):
    batch.pop(name)


def becomes_another_in_its_place(batch, name, draw):
    """The column dies, and what is made next may get its address."""
    column = batch.pop(name) * 2 + 1
    batch["new"] = column
    batch["newer"] = column[:2] * 3


def has_another_name(batch, name, draw):
    batch[f"{name}2"] = batch[name]


def is_viewed(batch, name, draw):
    batch[f"{name} from the end"] = batch[name][-3:]
    batch[f"every second {name}"] = batch[name][::2]


def has_nothing_in_it(batch, name, draw):
    empty = batch[name][:0].reshape(0, 4)
    batch["boxes"] = [empty, empty * 0.5, batch[name][:0]]


def has_words(batch, name, draw):
    if is_tensor(batch[name]):
        batch[name].note = "x"


def asks_for_gradients(batch, name, draw):
    if is_tensor(batch[name]) and batch[name].is_floating_point():
        batch[name].requires_grad_()


def is_a_parameter(batch, name, draw):
    if is_tensor(batch[name]) and batch[name].is_floating_point():
        import torch

        batch[f"parameter {name}"] = torch.nn.Parameter(batch[name] * 2, requires_grad=draw.random() < 0.5)


def adds_to_all_values(batch, name, draw):
    values = batch[name].values
    values += 1


def writes_to_values(batch, name, draw):
    for value in batch[name]:
        value[...] = 3


def is_a_list(batch, name, draw):
    batch[name] = list(batch[name])


def is_a_list_of_copies(batch, name, draw):
    batch[name] = batch[name].tolist()


def is_copied(batch, name, draw):
    batch[name] = draw.choice([copy.copy, copy.deepcopy])(batch[name])


def is_moved(batch, name, draw):
    if is_tensor(batch[name].values):
        batch[f"moved {name}"] = batch[name].to("cpu")


def is_cut(batch, name, draw):
    batch[f"cut {name}"] = batch[name][1:3]


def is_hidden(batch, name, draw):
    batch["deep"] = {"down": [batch[name]]}


def writes_to_bytes(batch, name, draw):
    for value in batch[name]:
        if len(value):
            value[0] = 65


def writes_to_json(batch, name, draw):
    batch[name][1]["l"].append(3)


NUMBERS = [
    adds,
    writes,
    gets_a_dimension,
    changes_its_type,
    is_transposed,
    is_replaced,
    goes,
    becomes_another_in_its_place,
    has_another_name,
    is_viewed,
    has_nothing_in_it,
    has_words,
    asks_for_gradients,
    is_a_parameter,
]
RAGGED = [
    adds_to_all_values,
    writes_to_values,
    goes,
    has_another_name,
    is_a_list,
    is_a_list_of_copies,
    is_copied,
    is_moved,
    is_cut,
    is_hidden,
]
STEPS = [(step, name) for name in ("n", "f", "z") for step in NUMBERS]
STEPS += [(step, name) for name in ("a", "q") for step in RAGGED]
STEPS += [(writes_to_bytes, "b"), (is_a_list, "b"), (goes, "b"), (goes, "s"), (is_a_list, "s"), (writes_to_json, "j")]


class Programs:
    """A transform of batches: in each epoch another list of steps, at most one for a column."""

    def __init__(self, programs):
        self.programs = programs

    def __call__(self, batch):
        import leat  # here: tests choose which build of it they load

        return run(self.programs[leat.sample_info().epoch], batch)


def run(program, batch):
    for n, (step, name) in enumerate(program):
        step(batch, name, random.Random(n))
    return batch


def all_steps():
    """Programs that together have every step once."""
    programs, rest = [], list(STEPS)
    while rest:
        now = {name: step for step, name in reversed(rest)}
        rest = [(step, name) for step, name in rest if now[name] is not step]
        programs.append([(step, name) for name, step in now.items()])
    return programs


def drawn_steps(draw):
    names = draw.sample(["n", "f", "z", "a", "q", "b", "s", "j"], 5)
    return [draw.choice([step for step in STEPS if step[1] == name]) for name in names]


# What cannot come back.


def what_cannot_come_back(batch):
    import leat

    if leat.sample_info().epoch == 0:
        return {"x": batch["f"].requires_grad_() * 2}
    return {"x": memoryview(numpy.zeros((2, 3), "f4"))}


def fails_after_writing(batch):
    batch["i"] += 1000
    batch["i"].shape = (1, -1)
    raise ValueError("on purpose")


def text_of_numpys(batch):
    """Its array holds references, not text."""
    names = numpy.array(["a" * 40, "b"] * 3, numpy.dtypes.StringDType())
    return {"x": names, "n": len(names)}


def without_boxes(sample):
    n, x = sample
    return n, x[:0]
