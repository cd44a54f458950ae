"""What goes over the network and back: the same on both sides, or refused in a sentence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

import fadewise as fw
from fadewise.flower import Answer
from fadewise.flower.messages import KEY, Layout, Order, answer_of, answered, order_of, ordered

ANSWER = Answer(3, 7, 0.1 + 0.2, 1 / 3, True, 4, math.inf, '{"seed": 0}')


@pytest.mark.parametrize("answer", [ANSWER, ANSWER._replace(gain=0.7, state=(1e-300, 2.5))])
def test_an_answer_comes_through_to_the_bit(answer: Answer) -> None:
    assert answer_of(RecordDict({KEY: answered(answer)})) == answer


def test_an_order_comes_through() -> None:
    order = Order("run", 3, asked=True, audited=True, upload_round=2, upload_s=0.25)
    message = Message(RecordDict({KEY: ordered(order)}), dst_node_id=1, message_type="query.decide")
    assert order_of(message) == order
    with pytest.raises(fw.FadewiseError, match=r"its server does not use fadewise\.flower\.strategy"):
        order_of(Message(RecordDict(), dst_node_id=1, message_type="train"))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"device": "three"}, "device in a message of fadewise is 'three'; it must be int"),
        ({"probability": 1}, "probability in a message of fadewise is 1; it must be float"),
        ({"takes_part": 1}, "takes_part in a message of fadewise is 1; it must be bool"),
        ({"state": "high"}, "the state in an answer is not numbers"),
        ({"state": [1]}, "the state in an answer is not numbers"),
        ({"mood": "good"}, "cannot be read: .*mood"),
    ],
)
def test_what_is_no_answer_is_refused(change: dict[str, str], complaint: str) -> None:
    record = ConfigRecord(dict(answered(ANSWER)) | change)
    with pytest.raises(fw.FadewiseError, match=complaint):
        answer_of(RecordDict({KEY: record}))
    with pytest.raises(fw.FadewiseError, match="is its version another"):
        answer_of(RecordDict())


def test_a_model_is_one_vector_of_its_floating_point_arrays() -> None:
    rng = np.random.default_rng(0)
    arrays = ArrayRecord(
        {
            "weight": Array(rng.normal(size=(3, 4)).astype(np.float32)),
            "batches": Array(np.array(7)),
            "bias": Array(rng.normal(size=5)),
            "scale": Array(np.array(2.0, np.float32)),
        }
    )
    layout = Layout(arrays)
    vector = layout.vector(arrays)
    assert vector.dtype == np.float32
    assert len(vector) == 12 + 5 + 1
    back = layout.arrays(vector + 1)
    assert [back[name].numpy().dtype for name in back] == [arrays[name].numpy().dtype for name in arrays]
    np.testing.assert_array_equal(back["weight"].numpy(), arrays["weight"].numpy() + 1)
    assert back["batches"].numpy() == 7
    assert layout.vector(layout.arrays(vector)).tobytes() == vector.tobytes()
    other = ArrayRecord({"weight": Array(np.zeros((4, 3), np.float32))})
    assert len(layout.vector(other)) == 0
    assert len(Layout(other).vector(ArrayRecord({"weight": Array(np.zeros((3, 4), np.float32))}))) == 0
    with pytest.raises(fw.FadewiseError, match="no floating-point arrays"):
        Layout(ArrayRecord({"count": Array(np.array(1))}))
