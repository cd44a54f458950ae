"""Your model and your data go here, where it says so. This is a small network on handwriting, one writer a device."""

import numpy as np
import torch
from torch import nn

import fadewise as fw
from scheduled.fleet import EXPERIMENT

TRAINING = EXPERIMENT.training

torch.set_num_threads(1)


# ── 1. YOUR MODEL ──────────────────────────────────────────────────────────────────────────────────────────────────
def network() -> nn.Module:
    """The model, the same at the start wherever it is made."""
    torch.manual_seed(EXPERIMENT.seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 64), nn.ReLU(), nn.Linear(64, 62))


# ── 2. YOUR DATA ───────────────────────────────────────────────────────────────────────────────────────────────────
DATA = TRAINING.data.federation(EXPERIMENT.devices, EXPERIMENT.seed)


def minibatches(device: int, number: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What a device trains on in a round.

    Drawn by address, so that a device that is asked twice trains twice the same.
    """
    shard = DATA.shard(device)
    words = fw.Stream(EXPERIMENT.seed, number).uniforms_of(device, "minibatches", TRAINING.steps * TRAINING.batch_size)
    rows = shard.rows[(words * len(shard.rows)).astype(np.int64)].reshape(TRAINING.steps, -1)
    return [(images(shard.images[batch]), labels(shard.labels[batch])) for batch in rows]


def accuracy(model: nn.Module) -> float:
    """On the server's test set."""
    with torch.inference_mode():
        right = model(images(DATA.test_images)).argmax(1) == labels(DATA.test_labels)
    return float(right.float().mean())


def images(pixels: np.ndarray) -> torch.Tensor:
    """Normalised, with the channel first."""
    normalised = (torch.from_numpy(np.array(pixels)).float() - torch.from_numpy(DATA.mean)) / torch.from_numpy(
        DATA.deviation
    )
    return normalised.permute(0, 3, 1, 2)


def labels(numbers: np.ndarray) -> torch.Tensor:
    """As torch wants them."""
    return torch.from_numpy(numbers.astype(np.int64))


# ── The rest is as it is ───────────────────────────────────────────────────────────────────────────────────────────
def train(model: nn.Module, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Local SGD; the mean loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=TRAINING.step_size)
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return float(np.mean(losses))
