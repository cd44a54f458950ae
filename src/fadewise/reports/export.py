"""Every round of runs in one file, for whatever people analyse tables with: .csv or .parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fadewise.errors import FadewiseError, NotAllowed
from fadewise.reports import runs

_FORMATS = (".csv", ".parquet")
_BATCH = 2000


def write(paths: Sequence[Path], out: Path) -> int:
    """Writes a row a round, in the order of the runs' folders; how many. In CSV, lists are as in JSON."""
    if out.suffix not in _FORMATS:
        raise NotAllowed("the file to export to", str(out), "a name ending in .csv or .parquet")
    folders = runs.folders(paths)
    fresh = out.with_name(out.name + ".fresh")
    try:
        rows = (_to_csv if out.suffix == ".csv" else _to_parquet)(_rows(folders), fresh)
        fresh.replace(out)
    except OSError as error:
        raise FadewiseError(f"{out} cannot be written: {error.strerror or error}") from None
    finally:
        fresh.unlink(missing_ok=True)
    return rows


def _rows(folders: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """The records with what tells runs apart in front and the wall clock behind."""
    arms = runs.arms(folders)
    names = {run.name: arm.name for arm in arms for run in arm.runs.values()}
    for folder in folders:
        seed = next(run.seed for arm in arms for run in arm.runs.values() if run.name == str(folder))
        walls = runs.timing_of_rounds(folder, "wall_s")
        for line in runs.whole_lines(folder / "rounds.jsonl"):
            record = json.loads(line)
            yield (
                {"run": str(folder), "configuration": names[str(folder)], "seed": seed}
                | record
                | {"wall_s": walls.get(record["round"])}
            )


def _to_csv(rows: Iterator[dict[str, Any]], path: Path) -> int:
    count = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        for count, row in enumerate(rows, 1):
            if count == 1:
                # The first run's columns, as Parquet has its schema's: another version may write more.
                writer = csv.DictWriter(file, list(row), extrasaction="ignore")
                writer.writeheader()
            writer.writerow({k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()})
    return count


def _to_parquet(rows: Iterator[dict[str, Any]], path: Path) -> int:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise FadewiseError(
            "Parquet is written with pyarrow: pip install 'fadewise[train]'; .csv needs nothing"
        ) from None
    number, numbers = pyarrow.float64(), pyarrow.list_(pyarrow.float64())
    schema = pyarrow.schema(
        [
            ("run", pyarrow.string()), ("configuration", pyarrow.string()), ("seed", pyarrow.uint64()),
            ("round", pyarrow.int64()), ("participants", pyarrow.list_(pyarrow.int64())), ("inclusion", numbers),
            ("weights", numbers), ("power", numbers), ("losses", numbers), ("update_norms", numbers),
            ("effective_sample_size", number), ("fallback", pyarrow.bool_()), ("excluded_share", number),
            ("airtime_s", number), ("total_airtime_s", number), ("round_time_s", number),
            ("total_round_time_s", number), ("energy", number), ("total_energy", number), ("mean_power", number),
            ("accuracy", number), ("loss", number), ("wall_s", number),
        ]
    )  # fmt: skip
    count = 0
    with path.open("wb") as file, pyarrow.parquet.ParquetWriter(file, schema) as writer:
        batch: list[dict[str, Any]] = []
        for row in rows:
            batch.append(row)
            count += 1
            if len(batch) == _BATCH:
                writer.write_table(pyarrow.Table.from_pylist(batch, schema))
                batch = []
        writer.write_table(pyarrow.Table.from_pylist(batch, schema))
    return count
