"""A training script that test_profile.py profiles. It knows nothing of the profiler, and prints what its injected sleeps really
took, so that tests hold on a busy machine too. With "account" each rank writes when each of its steps got where, by a clock that all
processes share. The argument is JSON."""

import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, get_worker_info

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
    "account": "",
}
WISH |= json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
slept = {}
arrived = [0.0]  # when the last bucket had all its gradients
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
        self.prepared = torch.zeros(
            max(1, WISH["workers"]), dtype=torch.float64
        ).share_memory_()  # seconds of each worker

    def __len__(self):
        return 2 * WISH["steps"]

    def __getitem__(self, i):
        sleep("fetch", WISH["read"])
        start, worker = time.perf_counter(), get_worker_info()
        x = self.transform(torch.full((16,), float(i % 7)))
        if worker:
            self.prepared[worker.id] += time.perf_counter() - start
        return x, i % 3


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
    net = torch.nn.parallel.DistributedDataParallel(net, broadcast_buffers=not WISH["account"])
    if WISH["link"] or WISH["account"]:

        def slow_link(state, bucket):
            arrived[0] = time.perf_counter()

            def over(future):
                sleep("communication", WISH["link"])
                return future.value()[0]

            return dist.all_reduce(bucket.buffer().div_(2), async_op=True).get_future().then(over)

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
    dataset = Numbers()
    loader = DataLoader(
        dataset, batch_size=2, shuffle=True, num_workers=WISH["workers"], multiprocessing_context=WISH["context"]
    )
    begun, copied, passed, ended, slept_by, iterations = [], [], [], [], [], 0
    for x, y in loader:
        begun.append(time.perf_counter())
        iterations += 1
        if WISH["copy"]:
            x.as_subclass(SlowCopy).to("meta")
        copied.append(time.perf_counter())
        x.mul_(0.5)
        time.sleep(WISH["compute"])
        sleep("late", WISH["late"] if rank == 1 else 0)
        loss = torch.nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        passed.append((arrived[0], time.perf_counter()))
        optimizer.step()
        schedule.step()
        if WISH["end"] == "exit" and iterations == 3:
            sys.exit(7)
        if WISH["end"] == "crash" and iterations == 30:
            raise RuntimeError("as it must")
        if WISH["end"] == "killed" and iterations == 30 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        ended.append(time.perf_counter())
        slept_by.append(dict(slept))
    if WISH["save"]:
        torch.save(net.state_dict(), WISH["save"])
        torch.load(WISH["save"])
    said = {"weights": [p.double().sum().item() for p in net.state_dict().values()], "lr": schedule.get_last_lr()}
    said |= {"random": torch.rand(1).item()}
    if rank == 0:
        print(json.dumps(said))
    # Seconds of a step, without the first two, which are the profiler's warm-up: it goes from the end of the loop's body to its next.
    count = max(1, len(ended) - 2)
    said = {
        "step_s": (ended[-1] - ended[1]) / count,
        "slept_s": {cause: (seconds - slept_by[1].get(cause, 0)) / count for cause, seconds in slept_by[-1].items()},
        "waited_s": sum(b - e for b, e in zip(begun[2:], ended[1:], strict=False)) / count,
        "copied_s": sum(c - b for b, c in zip(begun[2:], copied[2:], strict=True)) / count,
    }
    line = json.dumps({"rank": rank, "iterations": iterations, **said})
    sys.stderr.write(f"truth {line}\n")  # at once: ranks share the pipe
    if WISH["account"]:
        rows = [
            {"begun": b, "copied": c, "arrived": a, "exchanged": d, "ended": e, **s}
            for b, c, (a, d), e, s in zip(begun, copied, passed, ended, slept_by, strict=True)
        ]
        with open(f"{WISH['account']}{rank}.json", "w") as file:
            json.dump({"steps": rows, "workers_prepared": dataset.prepared.sum().item()}, file)
    sys.stdout.flush()
    if dist.is_initialized():
        dist.barrier()
        os._exit(0)


if __name__ == "__main__":
    main()
