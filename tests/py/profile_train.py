"""A training script that test_profile.py profiles. It knows nothing of the profiler, and prints what its injected sleeps really
took, so that tests hold on a busy machine too. The argument is JSON."""

import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

WISH = {
    "read": 0,
    "transform": 0,
    "copy": 0,
    "late": 0,
    "link": 0,
    "workers": 0,
    "steps": 45,
    "compute": 0.005,
    "width": 8,
    "context": None,
    "end": "",
    "save": "",
}
WISH |= json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
slept = {}
torch.set_num_threads(1)


def sleep(cause, seconds):
    if seconds:
        start = time.perf_counter()
        time.sleep(seconds)
        slept[cause] = slept.get(cause, 0) + time.perf_counter() - start


def transform(x):
    sleep("prepare", WISH["transform"])
    return x * 2


class Numbers(Dataset):
    def __init__(self):
        self.transform = transform

    def __len__(self):
        return 2 * WISH["steps"]

    def __getitem__(self, i):
        sleep("fetch", WISH["read"])
        return self.transform(torch.full((16,), float(i % 7))), i % 3


class SlowCopy(torch.Tensor):
    """A tensor that takes its time to get to another device."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") == "to":
            sleep("copy", WISH["copy"])
        return super().__torch_function__(function, types, args, kwargs or {})


def make_net(rank):
    net = torch.nn.Sequential(
        torch.nn.Linear(16, WISH["width"]),
        torch.nn.BatchNorm1d(WISH["width"]),
        torch.nn.Dropout(0.2),
        torch.nn.Linear(WISH["width"], 3),
    )
    if not dist.is_initialized():
        return net
    net = torch.nn.parallel.DistributedDataParallel(net)
    if WISH["link"]:

        def slow_link(state, bucket):
            def arrived(future):
                sleep("communication", WISH["link"])
                return future.value()[0]

            return dist.all_reduce(bucket.buffer().div_(2), async_op=True).get_future().then(arrived)

        net.register_comm_hook(None, slow_link)
    return net


def main():
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if dist.is_initialized() else 0
    torch.manual_seed(0)
    net = make_net(rank)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    loader = DataLoader(
        Numbers(), batch_size=2, shuffle=True, num_workers=WISH["workers"], multiprocessing_context=WISH["context"]
    )
    times, iterations = [], 0
    for x, y in loader:
        times.append(time.perf_counter())
        iterations += 1
        if WISH["copy"]:
            x.as_subclass(SlowCopy).to("meta")
        x.mul_(0.5)
        time.sleep(WISH["compute"])
        sleep("late", WISH["late"] if rank == 1 else 0)
        loss = torch.nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if WISH["end"] == "exit" and iterations == 3:
            sys.exit(7)
        if WISH["end"] == "crash" and iterations == 30:
            raise RuntimeError("as it must")
        if WISH["end"] == "killed" and iterations == 30 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    if WISH["save"]:
        torch.save(net.state_dict(), WISH["save"])
        torch.load(WISH["save"])
    said = {"weights": [p.double().sum().item() for p in net.state_dict().values()], "lr": schedule.get_last_lr()}
    said |= {"random": torch.rand(1).item()}
    if rank == 0:
        print(json.dumps(said))
    steps = len(times) - 1
    step = (times[-1] - times[0]) / max(1, steps)
    truth = {cause: seconds / len(times) / step for cause, seconds in slept.items()}
    line = json.dumps({"rank": rank, "shares": truth, "step_s": step, "iterations": iterations})
    sys.stderr.write(f"truth {line}\n")  # at once: ranks share the pipe
    sys.stdout.flush()
    if dist.is_initialized():
        dist.barrier()
        os._exit(0)


if __name__ == "__main__":
    main()
