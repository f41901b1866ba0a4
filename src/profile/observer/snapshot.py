"""What a step of a training changes, and how it is put back after a block of steps with other batches."""

import copy
import functools
import gc
import random
import sys
import weakref

generators = sys.modules["_leat_observe"]._part("generators")
Refused = generators.Refused
FROZEN = gc.get_freeze_count()  # objects, before the script began


def instances(kinds):
    """{name: things of that kind that this process has}."""
    if gc.get_freeze_count() > FROZEN:
        raise Refused("the script has called gc.freeze(), which hides its model and optimizer")
    found = {name: [] for name in kinds}
    told = {}  # by type, of which there are few: isinstance() would ask proxies who they are
    for thing in gc.get_objects():
        kind = type(thing)
        if kind not in told:
            told[kind] = next((name for name, base in kinds.items() if issubclass(kind, base)), None)
        if told[kind]:
            found[told[kind]].append(thing)
    return found


ROOM = 1 << 30  # bytes of a script's own tensors that are kept, beside twice those of its model


class Own:
    """Tensors of no module and no optimizer that the script's steps write into: an average of weights, a sum of losses. What has
    changed from one look to the next is put back after a block."""

    def __init__(self, torch):
        self.torch = torch
        self.versions = {}  # id -> (a weak reference, version)
        self.changed = {}  # id -> a weak reference

    def look(self):
        """Between two steps of the script's own."""
        kinds, versions = (self.torch.Tensor, self.torch.nn.Parameter), {}
        for thing in gc.get_objects():
            if type(thing) not in kinds:
                continue
            try:
                version = thing._version
            except RuntimeError:  # made for inference only: nobody writes into it
                continue
            known = self.versions.get(id(thing))
            if known is not None and known[0]() is thing and known[1] != version:
                self.changed[id(thing)] = known[0]
            versions[id(thing)] = (weakref.ref(thing), version)
        self.versions = versions
        self.changed = {key: one for key, one in self.changed.items() if one() is not None}

    def tensors(self, known):
        """Those that are not among the known ones, and whose values can be put back."""
        found = (one() for one in self.changed.values())
        return [t for t in found if t is not None and id(t) not in known and self.is_plain(t)]

    def is_plain(self, tensor):
        """Not sparse, no view that lies in itself, and not one of those from which FSDP takes the memory at times."""
        if tensor.layout is not self.torch.strided or not tensor.is_contiguous():
            return False
        return tensor.untyped_storage().nbytes() >= tensor.nbytes


class Snapshot:
    """What a step changes: of every module, optimizer, scheduler and scaler that this process has, and of what the script has beside
    them."""

    def __init__(self, torch, own):
        self.torch = torch
        kinds = {"module": torch.nn.Module, "optimizer": torch.optim.Optimizer}
        kinds["scheduler"] = torch.optim.lr_scheduler.LRScheduler
        kinds["scaler"] = torch.amp.GradScaler
        found = instances(kinds)
        self.exchanging = [m for m in found["module"] if isinstance(m, torch.nn.parallel.DistributedDataParallel)]
        tensors = {}
        for module in found["module"]:
            for tensor in [*module._parameters.values(), *module._buffers.values()]:
                if tensor is not None:
                    tensors[id(tensor)] = tensor
        for optimizer in found["optimizer"]:  # whose parameters need not be a module's
            tensors.update((id(p), p) for group in optimizer.param_groups for p in group["params"])
        states = [v for o in found["optimizer"] for state in o.state.values() for v in state.values()]
        known = {*tensors, *(id(t.grad) for t in tensors.values()), *map(id, states)}
        found_own = own.tensors(known)
        if sum(t.nbytes for t in found_own) > ROOM + 2 * sum(t.nbytes for t in tensors.values()):
            raise Refused(
                "the script's steps write into more memory of their own than can be kept (a cache of its data?)"
            )
        self.own = [(t, t.detach().clone()) for t in found_own]
        self.tensors = [
            (t, t.detach().clone(), None if t.grad is None else t.grad.detach().clone()) for t in tensors.values()
        ]
        self.states = [(o, {p: self.copied(s) for p, s in o.state.items()}) for o in found["optimizer"]]
        self.groups = [
            (g, {k: v for k, v in self.copied(g).items() if k != "params"})
            for o in found["optimizer"]
            for g in o.param_groups
        ]
        self.schedulers = [(s, copy.deepcopy(s.state_dict())) for s in found["scheduler"]]
        self.scalers = [
            (s, s._scale.clone(), s._growth_tracker.clone()) for s in found["scaler"] if s._scale is not None
        ]
        self.counters = counters(gc.get_objects())
        numpy = sys.modules.get("numpy")
        self.random = random.getstate(), numpy and numpy.random.get_state(), torch.get_rng_state()
        self.generators = generators.Generators(torch)
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def copied(self, values):
        tensor = self.torch.Tensor
        return {
            k: v.detach().clone() if isinstance(v, tensor) else copy.copy(v) if k != "params" else v
            for k, v in values.items()
        }

    def put(self, values, saved):
        """Into the same tensors: others may hold them."""
        tensor = self.torch.Tensor
        for key in [k for k in values if k not in saved and k != "params"]:
            del values[key]
        for key, value in saved.items():
            if isinstance(value, tensor) and isinstance(values.get(key), tensor):
                values[key].data.copy_(value)
            else:
                values[key] = value.clone() if isinstance(value, tensor) else copy.copy(value)

    def restore(self):
        """As often as is asked for."""
        torch = self.torch
        with torch.no_grad():
            for tensor, saved, grad in self.tensors:
                tensor.data.copy_(saved)
                if grad is None or tensor.grad is None:
                    tensor.grad = None if grad is None else grad.clone()  # steps after this may write into it
                else:
                    tensor.grad.data.copy_(grad)
            for tensor, saved in self.own:
                tensor.data.copy_(saved)
            for optimizer, states in self.states:
                for parameter in [p for p in optimizer.state if p not in states]:
                    del optimizer.state[parameter]
                for parameter, saved in states.items():
                    self.put(optimizer.state[parameter], saved)
            for group, saved in self.groups:
                self.put(group, saved)
            for scheduler, saved in self.schedulers:
                scheduler.load_state_dict(copy.deepcopy(saved))
            for scaler, scale, tracker in self.scalers:
                scaler._scale.copy_(scale)
                scaler._growth_tracker.copy_(tracker)
            for values, saved in self.counters:
                values.update(saved)
        python, numpy, cpu = self.random
        random.setstate(python)
        if numpy is not None:
            sys.modules["numpy"].random.set_state(numpy)
        torch.set_rng_state(cpu)
        self.generators.restore()
        if self.cuda is not None:
            torch.cuda.set_rng_state_all(self.cuda)


def counters(things):
    """Of accelerate: how many batches of a step have been accumulated, and whether gradients are exchanged."""
    module, state = sys.modules.get("accelerate.accelerator"), sys.modules.get("accelerate.state")
    if module is None or state is None:
        return []
    found = [(t.__dict__, {"step": t.step}) for t in things if issubclass(type(t), module.Accelerator)]
    shared = state.GradientState._shared_state
    return [*found, (shared, dict(shared))]


def follow_looks(torch, looked):
    """Calls looked() before the script takes weights or an optimizer's state out of the training, to keep or to save them."""

    def follow(kind, name, inner=lambda args, kwargs: False):
        plain = getattr(kind, name)

        @functools.wraps(plain)
        def call(*args, **kwargs):
            if not inner(args, kwargs):
                looked()
            return plain(*args, **kwargs)

        setattr(kind, name, call)

    follow(torch.nn.Module, "state_dict", lambda args, kwargs: len(args) > 1 or kwargs.get("destination") is not None)
    follow(torch.optim.Optimizer, "state_dict")
    follow(torch.nn.Parameter, "__deepcopy__")
    follow(torch, "save")
