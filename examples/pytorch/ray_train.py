"""Trains with Ray Train's TorchTrainer: the function `train` runs in every worker.

pip install "ray[train]"
python examples/pytorch/ray_train.py
"""

import argparse
import os
import tempfile
from pathlib import Path

import ray
import ray.train
import ray.train.torch
import torch
from torch import nn
from torch.utils.data import DataLoader

FOLDER = str(Path(__file__).resolve().parent)


def train(settings):
    """One worker. Ray starts the process group and averages gradients (DDP)."""
    from smoothing import AHEAD, Smoother, make_data

    import drnn.torch

    torch.manual_seed(1)
    torch.set_num_threads(1)
    recurrent = drnn.torch.DelayedLSTM(1, settings["units"], delay=AHEAD, batch_first=True)
    model = ray.train.torch.prepare_model(Smoother(recurrent))
    loader = ray.train.torch.prepare_data_loader(DataLoader(make_data(), 16, shuffle=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(1, settings["epochs"] + 1):
        if ray.train.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        mean = sum(losses) / len(losses)
        report({"epoch": epoch, "loss": mean}, model)


def report(metrics, model):
    """Every worker reports; the first one also saves the parameters."""
    if ray.train.get_context().get_world_rank() > 0:
        return ray.train.report(metrics)
    with tempfile.TemporaryDirectory() as folder:
        module = getattr(model, "module", model)  # without the wrapper of DDP
        torch.save(module.state_dict(), os.path.join(folder, "model.pt"))
        return ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--units", type=int, default=32)
    arguments = parser.parse_args()

    # Workers import smoothing.py from this folder.
    environment = {"env_vars": {"PYTHONPATH": FOLDER}}
    ray.init(num_cpus=arguments.workers, runtime_env=environment, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        trainer = ray.train.torch.TorchTrainer(
            train,
            train_loop_config={"epochs": arguments.epochs, "units": arguments.units},
            scaling_config=ray.train.ScalingConfig(num_workers=arguments.workers, use_gpu=False),
            run_config=ray.train.RunConfig(storage_path=folder, name="smoothing"),
        )
        result = trainer.fit()
    for _, metrics in result.best_checkpoints:
        print(f"epoch {metrics['epoch']}: loss {metrics['loss']:.4f} in worker 0")
    ray.shutdown()


if __name__ == "__main__":
    main()
