"""Flower's records and ours: what is in the messages between ServerApp and ClientApp."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from numpy.typing import NDArray

from fadewise.errors import FadewiseError
from fadewise.flower.answers import Answer

KEY = "fadewise"
"""The record of a message that is ours."""
DECIDE = "query.decide"
"""The type of the message that asks for a decision alone."""


class Order(NamedTuple):
    """What the server wants of a device.

    run: which training this is. A device has a backlog for each.
    asked: whether it is to send without having volunteered.
    broadcast: whether it is to decide first, and to train only if it takes part.
    audited: whether its answer is to tell what it was decided from.
    upload_round, upload_s: how long its last update took, as the server has it; -1 where it has not.
    """

    run: str
    round: int
    asked: bool = False
    broadcast: bool = False
    audited: bool = False
    upload_round: int = -1
    upload_s: float = -1.0


def ordered(order: Order) -> ConfigRecord:
    """An order as a record."""
    return ConfigRecord(order._asdict())


def order_of(message: Message) -> Order:
    """The order in a message."""
    record = message.content.config_records.get(KEY)
    if record is None:
        raise FadewiseError("the message has no order of fadewise: its server does not use fadewise.flower.strategy")
    order: Order = _read(Order, dict(record))
    return order


def answered(answer: Answer) -> ConfigRecord:
    """An answer as a record."""
    table = {name: value for name, value in answer._asdict().items() if value is not None}
    return ConfigRecord(table | ({} if answer.state is None else {"state": list(answer.state)}))


def answer_of(content: RecordDict) -> Answer:
    """The answer in a reply, whoever sent it: of the right types, or refused."""
    table = dict(content.config_records.get(KEY, {}))
    table.pop("busy_s", None)
    state = table.pop("state", None)
    answer: Answer = _read(Answer, table)
    if state is None:
        return answer
    numbers = [value for value in state if isinstance(value, float)] if isinstance(state, list) else []
    if not isinstance(state, list) or len(numbers) != len(state):
        raise FadewiseError("the state in an answer is not numbers")
    return answer._replace(state=tuple(numbers))


_TYPES: dict[str, type[Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "float | None": float,
}


def _read(kind: type[Any], table: dict[str, Any]) -> Any:
    """A tuple of this kind from a table, with every value of its type."""
    for name, annotation in kind.__annotations__.items():
        wanted = _TYPES.get(str(getattr(annotation, "__forward_arg__", annotation)))
        if name in table and wanted is not None and type(table[name]) is not wanted:
            raise FadewiseError(f"{name} in a message of fadewise is {table[name]!r}; it must be {wanted.__name__}")
    try:
        return kind(**table)
    except TypeError as error:
        raise FadewiseError(f"a message of fadewise cannot be read: {error}; is its version another?") from None


class Layout:
    """How a model's arrays lie in one vector of float32: the floating-point ones, one after the other.

    Others (a counter of batches, say) stay what they were at the start.
    """

    def __init__(self, arrays: ArrayRecord) -> None:
        self._fixed = {name: array.numpy() for name, array in arrays.items()}
        self._floating = [name for name, array in self._fixed.items() if np.issubdtype(array.dtype, np.floating)]
        if not self._floating:
            raise FadewiseError("the model has no floating-point arrays; there is nothing to train")

    def vector(self, arrays: ArrayRecord) -> NDArray[np.float32]:
        """The arrays as one vector; empty where they are not those of this model, or none at all."""
        nothing = np.empty(0, np.float32)
        if set(arrays) != set(self._fixed):
            return nothing
        try:
            parts = [np.asarray(arrays[name].numpy()) for name in self._floating]
        except Exception:  # bytes that a device has made up: NumPy may say anything of them
            return nothing
        for part, name in zip(parts, self._floating, strict=True):
            if part.shape != self._fixed[name].shape or part.dtype.kind not in "fiu":
                return nothing
        with np.errstate(over="ignore"):  # beyond float32 it is infinite, and refused as that
            return np.concatenate([part.astype(np.float32).ravel() for part in parts])

    def table(self) -> dict[str, str]:
        """What the arrays are, to write down and compare."""
        return {name: f"{array.dtype} {array.shape}" for name, array in self._fixed.items()}

    def arrays(self, vector: NDArray[np.float32]) -> ArrayRecord:
        """The vector as the arrays that it stands for."""
        result, first = dict(self._fixed), 0
        for name in self._floating:
            like = self._fixed[name]
            result[name] = vector[first : first + like.size].reshape(like.shape).astype(like.dtype)
            first += like.size
        return ArrayRecord({name: Array(array) for name, array in result.items()})
