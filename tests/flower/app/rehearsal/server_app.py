"""The server of the tests: a model of zeros, and a strategy by the run's configuration."""

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

import fadewise as fw
from fadewise.flower import Rules
from fadewise.flower.strategy import Scheduled, plainly

app = ServerApp()


@app.main()
@plainly()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    experiment = fw.load(str(config["experiment"]))
    strategy = Scheduled(
        Rules.of(experiment),
        str(config["folder"]),
        str(config["run"]),
        exchanges=int(config["exchanges"]),
        decide_s=float(config["decide-s"]),
        min_available_nodes=int(config["nodes"]),
    )
    numbers = 5 if experiment.training is None else 28 * 28 * 62 + 62
    arrays = ArrayRecord({"model": Array(np.zeros(numbers, np.float32))})
    strategy.start(grid, arrays, int(config["rounds"]), timeout=float(config["train-s"]))
