"""What a step of a training changes, and how it is put back after a block of steps with other batches."""

import copy
import gc
import random
import sys


class Snapshot:
    """What a step changes: of every module, optimizer, scheduler and scaler that this process has."""

    def __init__(self, torch):
        self.torch = torch
        kinds = {"module": torch.nn.Module, "optimizer": torch.optim.Optimizer}
        kinds["scheduler"] = torch.optim.lr_scheduler.LRScheduler
        kinds["scaler"] = torch.amp.GradScaler
        found = {name: [] for name in kinds}
        told = {}  # by type, of which there are few: isinstance() would ask proxies who they are
        for thing in gc.get_objects():
            kind = type(thing)
            if kind not in told:
                told[kind] = next((name for name, base in kinds.items() if issubclass(kind, base)), None)
            if told[kind]:
                found[told[kind]].append(thing)
        self.exchanging = [m for m in found["module"] if isinstance(m, torch.nn.parallel.DistributedDataParallel)]
        tensors = {}
        for module in found["module"]:
            for tensor in [*module._parameters.values(), *module._buffers.values()]:
                if tensor is not None:
                    tensors[id(tensor)] = tensor
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
                values[key] = value

    def restore(self):
        torch = self.torch
        with torch.no_grad():
            for tensor, saved, grad in self.tensors:
                tensor.data.copy_(saved)
                if grad is None or tensor.grad is None:
                    tensor.grad = grad
                else:
                    tensor.grad.data.copy_(grad)
            for optimizer, states in self.states:
                for parameter in [p for p in optimizer.state if p not in states]:
                    del optimizer.state[parameter]
                for parameter, saved in states.items():
                    self.put(optimizer.state[parameter], saved)
            for group, saved in self.groups:
                self.put(group, saved)
            for scheduler, saved in self.schedulers:
                scheduler.load_state_dict(saved)
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
