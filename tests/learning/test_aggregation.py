from __future__ import annotations

import numpy as np

from fadewise.learning import aggregation


def test_sums_are_the_same_bits_in_any_order_and_any_grouping() -> None:
    rng = np.random.default_rng(0)
    updates = rng.normal(0, 1, (13, 100_000)).astype(np.float32) * 10.0 ** rng.integers(-9, 2, (13, 1))
    updates = updates.astype(np.float32)
    weights = rng.exponential(3, 13)

    def summed(order: list[int]) -> np.ndarray:
        total = np.zeros(updates.shape[1], np.int64)
        for n in order:
            aggregation.add(total, updates[n], float(weights[n]))  # a plain number, as training has it
        return total

    whole = summed(list(range(13)))
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(13).tolist()
        parts = [summed(order[:4]), summed(order[4:5]), summed(order[5:])]
        assert np.array_equal(parts[0] + parts[1] + parts[2], whole)
    exact = (weights[:, None] * updates.astype(np.float64)).sum(axis=0)
    np.testing.assert_allclose(aggregation.value_of(whole), exact, rtol=0, atol=13 * 2.0**-41 * 1.01)


def test_the_largest_terms_that_are_allowed_do_not_overflow() -> None:
    for participants in (1, 2, 1000):
        largest = np.nextafter(np.float32(aggregation.LARGEST / participants), np.float32(0))
        total = np.zeros(2, np.int64)
        for _ in range(participants):
            aggregation.add(total, np.array([largest, -largest], np.float32), 1.0)
        expected = participants * float(largest)
        np.testing.assert_allclose(aggregation.value_of(total), [expected, -expected], rtol=1e-12)
