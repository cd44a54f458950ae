"""A small federation with a pattern to learn, in arrays."""

from __future__ import annotations

import numpy as np

from fadewise.data import Arrays


def arrays(
    devices: int = 12, shape: tuple[int, int, int] = (8, 8, 1), classes: int = 4, per_device: int = 20
) -> Arrays:
    rng = np.random.default_rng(0)
    prototypes = rng.integers(0, 256, (classes, *shape))

    def drawn(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.integers(0, classes, count).astype(np.int32)
        noise = rng.normal(0, 60, (count, *shape))
        return np.clip(prototypes[labels] + noise, 0, 255).astype(np.uint8), labels

    images, labels = drawn(devices * per_device)
    test_images, test_labels = drawn(600)
    return Arrays(
        images,
        labels,
        owners=np.repeat(np.arange(devices), per_device),
        test_images=test_images,
        test_labels=test_labels,
        classes=classes,
    )
