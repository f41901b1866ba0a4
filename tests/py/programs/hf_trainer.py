"""Hugging Face's Trainer, which gets loaders for training and evaluation. hf_trainer.py URL VAL_URL FOLDER

Trains three epochs of six batches, two batches per step, and evaluates after each. A second Trainer resumes from the checkpoint in
the middle of epoch 1, with nothing but the folder: the Trainer itself skips what was trained on."""

import os
import sys

import leat
import torch
from seen import Net, fields, finish, loss_of, note
from transformers import Trainer, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x, labels):
        return {"loss": loss_of(self.net, x, labels), "logits": self.net(x)}


class LeatTrainer(Trainer):
    def __init__(self, phase, train, val, **more):
        super().__init__(**more)
        self.phase = phase
        self.loaders = train, val

    def get_train_dataloader(self):
        return self.loaders[0]

    def get_eval_dataloader(self, eval_dataset=None):
        return self.loaders[1]

    def training_step(self, model, inputs, *more):
        note(self.phase, int(self.state.epoch + 1e-6), inputs.pop("i"))
        return super().training_step(model, inputs, *more)

    def prediction_step(self, model, inputs, *more, **options):
        note(f"{self.phase} val", int(self.state.epoch - 1e-6), inputs.pop("i"))
        return super().prediction_step(model, inputs, *more, **options)


def train(phase, url, val_url, folder, resume=None):
    train = leat.Loader(url, batch_size=16, seed=3, fields=fields("labels"), as_dict=True)
    val = leat.Loader(val_url, batch_size=8, shuffle=False, last="short", fields=fields("labels"), as_dict=True)
    args = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=8,
        gradient_accumulation_steps=2,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        num_train_epochs=3,
        eval_strategy="epoch",
        save_strategy="steps",
        save_steps=4,
        remove_unused_columns=False,
    )
    trainer = LeatTrainer(phase, train, val, eval_dataset=val, model=Model(), args=args)
    trainer.train(resume_from_checkpoint=resume)
    assert trainer.num_examples(train) == train.samples
    train.close()
    val.close()


def main():
    url, val_url, folder = sys.argv[1:4]
    train("whole", url, val_url, folder)
    train("after", url, val_url, folder, resume=os.path.join(folder, "checkpoint-4"))
    finish()


if __name__ == "__main__":
    main()
