"""A LightningModule with a delayed LSTM, trained by Lightning in several processes.

pip install lightning
python examples/pytorch/lightning_module.py
"""

import argparse

import lightning
import torch
from smoothing import AHEAD, Smoother, make_data
from torch import nn
from torch.utils.data import DataLoader

import drnn.torch


class DelayedSmoother(lightning.LightningModule):
    """Reads one direction only: the delay shows it the two steps of the future that it needs."""

    def __init__(self, units=32, delay=AHEAD, rate=0.01):
        super().__init__()
        self.save_hyperparameters()
        self.model = Smoother(drnn.torch.DelayedLSTM(1, units, delay=delay, batch_first=True))

    def forward(self, x):
        return self.model(x)

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.mse_loss(self(x), y)
        self.log("loss", loss, on_epoch=True, on_step=False, sync_dist=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("valid", nn.functional.mse_loss(self(x), y), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), self.hparams.rate)


class Report(lightning.Callback):
    def on_train_epoch_end(self, trainer, module):
        if trainer.is_global_zero:
            found = {name: float(trainer.callback_metrics[name]) for name in ("loss", "valid")}
            line = f"loss {found['loss']:.4f}, validation {found['valid']:.4f}"
            print(f"epoch {trainer.current_epoch + 1}: {line}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--devices", type=int, default=2, help="processes")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--delay", type=int, default=AHEAD)
    arguments = parser.parse_args()

    lightning.seed_everything(1, verbose=False)
    # As torchrun does it: otherwise every process computes with as many threads as there are cores.
    torch.set_num_threads(max(1, torch.get_num_threads() // arguments.devices))
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=arguments.devices,
        strategy="ddp" if arguments.devices > 1 else "auto",
        max_epochs=arguments.epochs,
        callbacks=[Report()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    train = DataLoader(make_data(), 16, shuffle=True)
    valid = DataLoader(make_data(sequences=128, seed=2), 64)
    trainer.fit(DelayedSmoother(delay=arguments.delay), train, valid)


if __name__ == "__main__":
    main()
