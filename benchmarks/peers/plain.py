"""An eager PyTorch loop as people write it: one participant after the other in one process, two intra-op threads."""

from __future__ import annotations

from protocol import Pacer, options

OPTIONS = options(__doc__, workers=1, tuned_threads=2)

import random  # noqa: E402

import torch  # noqa: E402
from common import SEED, Loader, network, samples, train  # noqa: E402


def main() -> None:
    pacer = Pacer(OPTIONS.rounds)
    shape = OPTIONS.shape
    torch.manual_seed(SEED)
    pool = samples(shape, tuned=OPTIONS.tuned)
    server = network(shape, tuned=OPTIONS.tuned)
    local = network(shape, tuned=OPTIONS.tuned)
    draw = random.Random(SEED)

    pacer.start()
    more = True
    while more:
        mean = {name: torch.zeros_like(value) for name, value in server.state_dict().items()}
        for device in draw.sample(range(shape.devices), shape.participants):
            local.load_state_dict(server.state_dict())
            train(local, Loader(pool[device]))
            for name, value in local.state_dict().items():
                mean[name].add_(value, alpha=1 / shape.participants)
        server.load_state_dict(mean)
        more = pacer.another()


if __name__ == "__main__":
    main()
