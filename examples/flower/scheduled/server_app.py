"""The server: asks for decisions, adds up what comes, keeps the books."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from fadewise.flower import Rules
from fadewise.flower.strategy import Scheduled, plainly
from scheduled.fleet import EXPERIMENT
from scheduled.task import accuracy, network

app = ServerApp()


@app.main()
@plainly()
def main(grid: Grid, context: Context) -> None:
    """Trains, or goes on with a training that was stopped."""
    config = context.run_config
    model = network()

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:  # noqa: ARG001
        model.load_state_dict(arrays.to_torch_state_dict())
        return MetricRecord({"accuracy": accuracy(model)})

    strategy = Scheduled(
        Rules.of(EXPERIMENT),
        str(config["folder"]),
        str(config["run"]),
        exchanges=int(config["exchanges"]),
        decide_s=float(config["decide-s"]),
        min_available_nodes=EXPERIMENT.devices,
    )
    strategy.start(
        grid,
        ArrayRecord(model.state_dict()),
        EXPERIMENT.rounds,
        timeout=float(config["train-s"]),
        evaluate_fn=evaluate,
    )
