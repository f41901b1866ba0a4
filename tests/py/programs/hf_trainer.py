"""Hugging Face's Trainer, whose get_train_dataloader gives the loader. hf_trainer.py URL FOLDER

Trains eight steps of six an epoch, saves, and resumes from the checkpoint to the end of epoch 2. The Trainer calls
set_epoch before every pass, on resume too; the place within the epoch is the loader's own state, which a callback saves
beside the checkpoint (ignore_data_skip: the Trainer itself skips batches only of a DataLoader)."""

import json
import os
import sys

import leat
import torch
from seen import Net, fields, finish, loss_of, note
from transformers import Trainer, TrainerCallback, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x, labels):
        return {"loss": loss_of(self.net, x, labels)}


class SaveLoader(TrainerCallback):
    def __init__(self, loader):
        self.loader = loader

    def on_save(self, args, state, control, **more):
        path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}", "loader.json")
        with open(path, "w") as file:
            json.dump(self.loader.state_dict(), file)


class LeatTrainer(Trainer):
    def __init__(self, loader, phase, **more):
        super().__init__(**more, callbacks=[SaveLoader(loader)])
        self.loader = loader
        self.phase = phase

    def get_train_dataloader(self):
        return self.loader

    def training_step(self, model, inputs, *more):
        note(self.phase, int(self.state.epoch + 1e-6), inputs.pop("i"), loader_epoch=self.loader.epoch)
        return super().training_step(model, inputs, *more)


def train(phase, url, folder, resume=None, **more):
    loader = leat.Loader(url, batch_size=16, seed=3, fields=fields("labels"), as_dict=True)
    if resume:
        with open(os.path.join(resume, "loader.json")) as file:
            loader.load_state_dict(json.load(file))
    args = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=16,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        ignore_data_skip=True,
        num_train_epochs=3,
        save_strategy="steps",
        save_steps=8,
        remove_unused_columns=False,
        **more,
    )
    LeatTrainer(loader, phase, model=Model(), args=args).train(resume_from_checkpoint=resume)
    loader.close()


def main():
    url, folder = sys.argv[1:3]
    train("whole", url, folder)
    train("after", url, folder, resume=os.path.join(folder, "checkpoint-8"))
    finish()


if __name__ == "__main__":
    main()
