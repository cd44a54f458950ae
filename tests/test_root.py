"""The root of u²·e^u = A against SciPy's Wright omega function."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import wrightomega

from fadewise import root


def oracle(log_a: np.ndarray) -> np.ndarray:
    return np.asarray(2 * wrightomega((log_a - np.log(4)) / 2))


def test_of_log_equals_the_oracle_over_all_magnitudes() -> None:
    log_a = np.linspace(-700, 700, 20_001)
    np.testing.assert_allclose(root.of_log(log_a), oracle(log_a), rtol=2e-13)


def test_of_log_neither_overflows_nor_vanishes_at_the_ends_of_floats() -> None:
    ends = root.of_log(np.array([-1400.0, 1e5]))
    assert ends[0] > 0
    assert np.isfinite(ends).all()


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "u": lambda u: u,
    "expm1": np.expm1,
    "q": lambda u: u / np.sqrt(u - np.expm1(-u)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_table_is_within_1e10_of_its_function(name: str) -> None:
    rng = np.random.default_rng(0)
    a = np.exp2(rng.uniform(-64, 64, 200_000))
    exact = FUNCTIONS[name](oracle(np.log(a)))
    np.testing.assert_allclose(look_up(name, a), exact, rtol=1e-10)


def test_table_says_nan_where_it_ends() -> None:
    outside = np.array([0.0, 2.0**-65, 2.0**64, 1e300, np.inf, np.nan, -np.nan])
    assert np.isnan(look_up("u", outside)).all()
    inside = np.array([2.0**-64, np.nextafter(2.0**64, 0)])
    np.testing.assert_allclose(look_up("u", inside), oracle(np.log(inside)), rtol=1e-10)


def look_up(name: str, a: np.ndarray) -> np.ndarray:
    out, scratch, cell = np.empty(len(a)), np.empty(len(a)), np.empty(len(a), np.int64)
    root.cell_of(a, out=cell)
    root.Table(FUNCTIONS[name]).look_up(a, cell, out, scratch)
    return out
