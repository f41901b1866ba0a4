"""A small training in one of several frameworks, for test_profile_frameworks.py. It knows nothing of the profiler: it prints what
the training came to, and how many steps it made by its own count."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

EPOCHS, BATCH, ACCUMULATE = 2, 2, 3
torch.set_num_threads(1)


class Rows(Dataset):
    def __init__(self, count=96):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        time.sleep(0.001)
        return {"x": torch.full((16,), float(i % 7)) + torch.rand(16) / 10, "labels": i % 3}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 3))

    def forward(self, x, labels):
        time.sleep(0.002)
        return {"loss": torch.nn.functional.cross_entropy(self.layers(x), labels)}


def say(net, steps):
    """`steps`: as leat counts them, from a batch to the next, or of all batches that are taken together."""
    sums = [p.detach().double().sum().item() for p in net.parameters()]
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(sums, torch.rand(1).item(), flush=True)
        print("steps", steps, file=sys.stderr, flush=True)


def make(rows=96):
    torch.manual_seed(0)
    net = Net()
    loader = DataLoader(Rows(rows), batch_size=BATCH, shuffle=True)
    return net, torch.optim.AdamW(net.parameters(), lr=0.01), loader


def plain_loop(net, optimizer, loader, accumulate=1, taken=1):
    """Gradients of several batches, that are taken one by one or together."""
    steps = 0
    for _ in range(EPOCHS):
        batches = iter(loader)
        while rows := [row for _, row in zip(range(taken), batches, strict=False)]:
            for i, row in enumerate(rows):
                (net(**row)["loss"] / accumulate).backward()
                if (steps * taken + i + 1) % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            steps += 1
    return steps


def one_by_one():
    net, optimizer, loader = make()
    say(net, plain_loop(net, optimizer, loader, accumulate=ACCUMULATE))


def together():
    net, optimizer, loader = make()
    say(net, plain_loop(net, optimizer, loader, accumulate=ACCUMULATE, taken=ACCUMULATE))


def ahead():
    """As prefetchers do: the next batch is taken before the last one is trained on."""
    net, optimizer, loader = make()
    steps = 0
    for _ in range(EPOCHS):
        batches = iter(loader)
        row = next(batches)
        while row is not None:
            following = next(batches, None)
            net(**row)["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
            row = following
            steps += 1
    say(net, steps)


def validating():
    """After every tenth step, on a few batches of another loader, which is then left as it is."""
    net, optimizer, loader = make()
    steps = 0
    for _ in range(EPOCHS):
        for row in loader:
            net(**row)["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if steps % 10 == 0:
                with torch.no_grad():
                    for i, other in enumerate(DataLoader(Rows(), batch_size=BATCH)):
                        net(**other)
                        if i == 3:
                            break
    say(net, steps)


def accelerate():
    from accelerate import Accelerator

    net, optimizer, loader = make()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.9)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATE)
    net, optimizer, loader, schedule = accelerator.prepare(net, optimizer, loader, schedule)
    steps = 0
    for _ in range(EPOCHS):
        for row in loader:
            with accelerator.accumulate(net):
                accelerator.backward(net(**row)["loss"])
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            steps += 1
    say(net, steps)


def trainer():
    from transformers import Trainer, TrainingArguments

    torch.manual_seed(0)
    net = Net()
    wanted = TrainingArguments(
        sys.argv[2], per_device_train_batch_size=BATCH, num_train_epochs=EPOCHS, gradient_accumulation_steps=ACCUMULATE,
        use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    made = Trainer(net, wanted, train_dataset=Rows())
    made.train()
    say(net, made.state.global_step)


def lightning():
    import lightning.pytorch as L

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, index):
            return self.net(**batch)["loss"]

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    _, _, loader = make()
    module = Module()
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    L.Trainer(max_epochs=EPOCHS, accelerator="cpu", devices=1, **quiet).fit(module, loader)
    say(module, EPOCHS * len(loader))


def leave():
    """FSDP keeps its process group for ever. Torch's threads in it would abort a Python that takes itself apart around them, now
    and then ("terminate called without an active exception"), with `leat profile` or without."""
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


def rank(number, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=number, world_size=2)
    net, _, loader = make()
    net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    say(net, plain_loop(net, optimizer, loader))
    dist.destroy_process_group()


def spawn():
    torch.multiprocessing.spawn(rank, (sys.argv[2],), nprocs=2)


def fsdp():
    """Under torchrun."""
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    net, _, loader = make()
    fully_shard(net.layers[0])
    fully_shard(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    steps = plain_loop(net, optimizer, loader)
    sums = [p.full_tensor().double().sum().item() for p in net.parameters()]
    if dist.get_rank() == 0:
        print(sums, flush=True)
        print("steps", steps, file=sys.stderr, flush=True)
    leave()


def fsdp1():
    """Under torchrun, as it was before fully_shard."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    dist.init_process_group("gloo")
    net, _, loader = make()
    net = FullyShardedDataParallel(net, device_id=torch.device("cpu"))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    steps = plain_loop(net, optimizer, loader)
    if dist.get_rank() == 0:
        print("steps", steps, file=sys.stderr, flush=True)
    leave()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
