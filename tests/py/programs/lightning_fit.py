"""Lightning's Trainer with training and validation. lightning_fit.py URL VAL_URL FOLDER DEVICES

One device: three epochs with limit_train_batches=4, then eight steps of six an epoch, a checkpoint there and a second
trainer that goes on from it. Two devices: two epochs by Lightning's own launcher."""

import sys

import leat
import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from seen import Net, fields, finish, loss_of, note


class Module(lightning.LightningModule):
    def __init__(self, phase):
        super().__init__()
        self.net = Net()
        self.phase = phase

    def training_step(self, batch, number):
        x, y, i = batch
        note(self.phase, self.current_epoch, i)
        return loss_of(self.net, x, y)

    def validation_step(self, batch, number):
        x, y, i = batch
        phase = "sanity" if self.trainer.sanity_checking else "val"
        note(f"{self.phase} {phase}", self.current_epoch, i)
        self.log("loss", loss_of(self.net, x, y))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def fit(phase, url, val_url, folder, ckpt=None, callbacks=(), **options):
    train = leat.Loader(url, global_batch_size=16, seed=3, fields=fields())
    val = leat.Loader(val_url, global_batch_size=8, shuffle=False, fields=fields())
    trainer = lightning.Trainer(
        accelerator="cpu",
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        enable_checkpointing=bool(callbacks),
        **options,
    )
    trainer.fit(Module(phase), train, val, ckpt_path=ckpt)
    train.close()
    val.close()


def main():
    url, val_url, folder, devices = sys.argv[1:5]
    if devices == "2":
        fit("two", url, val_url, folder, max_epochs=2, devices=2, strategy="ddp")
        finish()
    options = {"devices": 1}
    fit("limited", url, val_url, folder, max_epochs=3, limit_train_batches=4, **options)
    save = ModelCheckpoint(dirpath=folder, filename="middle", every_n_train_steps=8)
    fit("before", url, val_url, folder, callbacks=[save], max_steps=8, **options)
    fit("after", url, val_url, folder, ckpt=f"{folder}/middle.ckpt", max_epochs=3, **options)
    finish()


if __name__ == "__main__":
    main()
