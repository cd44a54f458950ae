"""Addressed randomness: every word has its place, whoever asks for it."""

import numpy as np
import pytest
from scipy import stats

from fadewise.errors import FadewiseError
from fadewise.randomness import Stream, stream


def test_a_device_alone_draws_what_it_draws_among_all() -> None:
    together = Stream(seed=3, round=17).uniforms("draw", 50)
    alone = [Stream(seed=3, round=17, first_device=n).uniforms("draw", 1)[0] for n in range(50)]
    assert together.tolist() == alone


def test_words_are_the_same_for_ever() -> None:
    """These are in people's published results: changing them is a new major version."""
    assert Stream(0, 0).uniforms("draw", 3).tolist() == [0.6541390972490391, 0.4687794832155381, 0.282016157000316]
    assert Stream(2**64 - 1, 700, 10**6).uniforms("rayleigh", 1).tolist() == [0.20604624869615618]


def test_seed_round_and_purpose_each_give_other_words() -> None:
    words = [
        Stream(0, 0).uniforms("draw", 4),
        Stream(1, 0).uniforms("draw", 4),
        Stream(0, 1).uniforms("draw", 4),
        Stream(0, 0).uniforms("rayleigh", 4),
    ]
    assert len(np.unique(np.concatenate(words))) == 16


def test_words_are_uniform_and_uncorrelated_between_neighbouring_addresses() -> None:
    a = np.array([Stream(5, t).uniforms("draw", 100) for t in range(200)])
    assert stats.kstest(a.ravel(), "uniform").pvalue > 0.001
    for x, y in ((a[1:], a[:-1]), (a[:, 1:], a[:, :-1])):
        # Of n independent pairs the correlation has deviation 1/√n; 4 of them are met once in 16,000 tries.
        assert abs(np.corrcoef(x.ravel(), y.ravel())[0, 1]) < 4 / np.sqrt(x.size)


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, "1", True])
def test_a_seed_that_is_none_is_refused(seed: object) -> None:
    with pytest.raises(FadewiseError, match=r"^seed is .*; it must be a whole number at least 0 and at most"):
        stream(seed, 0)  # type: ignore[arg-type]
