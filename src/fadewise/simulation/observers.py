"""What can watch a simulation: `simulate(experiment, [ProgressBar(1000), JSONL("rounds.jsonl")])`.

An observer is anything with `on_round(record)`; these ship. All are closed when the simulation ends,
where they have a `close`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fadewise.errors import FadewiseError
from fadewise.simulation.records import Record


def metrics(record: Record) -> dict[str, float]:
    """The numbers of a record that make a curve: what a tracker wants."""
    numbers: dict[str, float] = {
        "participants": len(record.participants),
        "effective_sample_size": record.effective_sample_size,
        "airtime_s": record.total_airtime_s,
        "round_time_s": record.total_round_time_s,
        "energy": record.total_energy,
        "mean_power": record.mean_power,
    }
    if record.losses:
        numbers["training_loss"] = sum(record.losses) / len(record.losses)
    if record.accuracy is not None and record.loss is not None:
        numbers |= {"accuracy": record.accuracy, "loss": record.loss}
    return numbers


class ProgressBar:
    """A bar with the last accuracy and the airtime, on the error stream or in a notebook."""

    def __init__(self, rounds: int) -> None:
        self._bar = Progress(
            BarColumn(),
            TextColumn("round"),
            MofNCompleteColumn(),
            TextColumn("accuracy {task.fields[accuracy]}"),
            TextColumn("airtime {task.fields[airtime]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("", total=rounds, accuracy="–", airtime="–")
        self._bar.start()

    def on_round(self, record: Record) -> None:
        shown: dict[str, Any] = {"airtime": f"{record.total_airtime_s:.0f} s"}
        if record.accuracy is not None:
            shown["accuracy"] = f"{record.accuracy:.3f}"
        self._bar.update(self._task, completed=record.round + 1, **shown)

    def close(self) -> None:
        """Leaves the bar as it is."""
        self._bar.stop()


class JSONL:
    """A line a round into a file, as in a run folder's rounds.jsonl."""

    def __init__(self, path: str | Path) -> None:
        try:
            self._file = Path(path).open("w", encoding="utf-8", buffering=1)  # noqa: SIM115  (`close` closes it)
        except OSError as error:
            raise FadewiseError(f"{path} cannot be written: {error.strerror or error}") from None

    def on_round(self, record: Record) -> None:
        self._file.write(record.line() + "\n")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class TensorBoard:
    """Scalars for TensorBoard, by round, in a log folder. Needs the package tensorboard."""

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise FadewiseError("the TensorBoard observer needs tensorboard: pip install tensorboard") from None
        self._writer: Any = SummaryWriter(str(folder))

    def on_round(self, record: Record) -> None:
        for name, value in metrics(record).items():
            self._writer.add_scalar(name, value, record.round)

    def close(self) -> None:
        """Writes what is still in memory."""
        self._writer.close()


class MLflow:
    """Metrics for MLflow's active run (or a new one). Needs the package mlflow."""

    def __init__(self) -> None:
        try:
            import mlflow
        except ImportError:
            raise FadewiseError("the MLflow observer needs mlflow: pip install mlflow") from None
        self._mlflow: Any = mlflow

    def on_round(self, record: Record) -> None:
        self._mlflow.log_metrics(metrics(record), step=record.round)


class WandB:
    """Metrics for Weights & Biases' current run, after `wandb.init(...)`. Needs the package wandb."""

    def __init__(self) -> None:
        try:
            import wandb
        except ImportError:
            raise FadewiseError("the W&B observer needs wandb: pip install wandb") from None
        self._wandb: Any = wandb

    def on_round(self, record: Record) -> None:
        self._wandb.log(metrics(record), step=record.round)
