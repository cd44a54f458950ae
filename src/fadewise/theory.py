"""What is proven: the convergence bounds of the paper, and the exact variance of what a draw estimates.

The bounds hold for local SGD with step size γ, I steps a round, T rounds and updates weighted by 1/(N·π),
on losses f_n that are L-smooth. Nothing in their proof needs independent draws: they hold for any draw's
inclusion probabilities π.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadewise import checks
from fadewise.errors import FadewiseError
from fadewise.sampling import FixedSize, Poisson, Sampling, Systematic

Array = NDArray[np.float64]


class Bound(NamedTuple):
    """The three terms of an upper bound on the average of E‖∇f(x_t)‖² over the rounds.

    start: how far the start is from the optimum. drift: that devices step away from the common model.
    sampling: that not all take part.
    """

    start: float
    drift: float
    sampling: float

    @property
    def total(self) -> float:
        """The bound."""
        return self.start + self.drift + self.sampling


def theorem_1(
    *, gap: float, smoothness: float, step_size: float, gradient_squares: ArrayLike, inclusion: ArrayLike
) -> Bound:
    """Theorem 1, from the gradients that were met.

    gap: f(x_0) - f*. smoothness: L. step_size: γ.
    gradient_squares: E‖g_n(y_{t,i})‖² with shape (T, N, I). inclusion: q or π with shape (T, N).
    """
    squares, pi = np.asarray(gradient_squares, np.float64), np.asarray(inclusion, np.float64)
    if squares.ndim != 3 or not squares.size or pi.shape != squares.shape[:2]:
        raise FadewiseError(
            f"gradient_squares have shape {squares.shape} and inclusion has {pi.shape}; "
            "they must be (rounds, devices, steps) and (rounds, devices)"
        )
    if not ((pi > 0) & (pi <= 1)).all():
        raise FadewiseError("inclusion must be above 0 and at most 1 for every device in every round")
    checks.number("step_size", step_size, above=0)
    rounds, devices, steps = squares.shape
    # Σ_i Σ_{j<i} counts the gradient of step j once for each of the I - 1 - j later steps.
    later_steps = np.arange(steps - 1, -1, -1)
    return Bound(
        start=2 * gap / (step_size * rounds * steps),
        drift=step_size**2
        * smoothness**2
        * (steps - 1)
        / (rounds * steps * devices)
        * float((squares * later_steps).sum()),
        sampling=step_size * smoothness / (rounds * devices) * float((squares.sum(axis=2) / pi).sum()),
    )


def corollary_1(
    *,
    gap: float,
    smoothness: float,
    step_size: float,
    local_steps: int,
    rounds: int,
    gradient_bound: float,
    variance_factor: float,
    variant: Literal["exact", "published"] = "exact",
) -> Bound:
    """Corollary 1, before anything is trained, where E‖g_n‖² ≤ G² everywhere.

    gradient_bound: G. variance_factor: the mean of 1/π over devices and rounds, as `plan` reports it.
    The published drift is twice the exact one, which counts I(I - 1)/2 pairs of steps and not I(I - 1).
    """
    checks.number("step_size", step_size, above=0)
    checks.whole("local_steps", local_steps, least=1)
    checks.whole("rounds", rounds, least=1)
    drift = step_size**2 * smoothness**2 * (local_steps - 1) ** 2 * gradient_bound**2
    return Bound(
        start=2 * gap / (step_size * rounds * local_steps),
        drift=drift if variant == "published" else drift / 2,
        sampling=step_size * smoothness * local_steps * gradient_bound**2 * variance_factor,
    )


def sampling_variance(updates: ArrayLike, joint: ArrayLike, shares: ArrayLike | None = None) -> float:
    """E‖Σ_drawn (w_n/π_n)·Δ_n - Σ w_n·Δ_n‖² = ΣΣ w_i·w_j·(π_ij/(π_i·π_j) - 1)·⟨Δ_i, Δ_j⟩, exactly.

    updates: Δ, a row a device. joint: π_ij, with π on its diagonal (see `joint_inclusion`).

    The weights divide by the true π; those of `fallback="published"` divide by q, and have another variance and
    a bias. Infinite where a device can never be drawn.
    """
    delta, pi_ij = _updates(updates), np.asarray(joint, np.float64)
    if pi_ij.shape != (len(delta), len(delta)):
        raise FadewiseError(f"joint has shape {pi_ij.shape}; it must be a row and a column for each of {len(delta)}")
    pi = pi_ij.diagonal()
    if not (pi > 0).all():
        return math.inf
    weights = np.full(len(pi), 1 / len(pi)) if shares is None else np.asarray(shares, np.float64)
    weighted = delta * (weights / pi)[:, None]
    return float(np.sum((pi_ij - np.outer(pi, pi)) * (weighted @ weighted.T)))


def poisson_variance(updates: ArrayLike, probability: ArrayLike) -> float:
    """The same for independent draws: (1/N²)·Σ (1/q - 1)·‖Δ_n‖²."""
    delta, q = _updates(updates), _probabilities(probability)
    if len(q) != len(delta):
        raise FadewiseError(f"there are {len(delta)} updates and {len(q)} probabilities; there must be as many")
    if not q.all():
        return math.inf
    return float(np.sum((1 / q - 1) * np.square(delta).sum(axis=1))) / len(q) ** 2


def simple_random_variance(updates: ArrayLike, participants: int) -> float:
    """The same for M of N drawn uniformly: (1 - M/N)/M · S², S² the updates' variance among devices."""
    delta = _updates(updates)
    checks.whole("participants", participants, least=0, most=len(delta))
    if participants == 0:
        return math.inf
    s_squared = float(np.square(delta - delta.mean(axis=0)).sum()) / max(len(delta) - 1, 1)
    return (1 - participants / len(delta)) / participants * s_squared


def joint_inclusion(sampling: Sampling, probability: ArrayLike) -> Array:
    """π_ij, the probability that devices i and j are both drawn, with π_i on the diagonal. N × N."""
    q = _probabilities(probability)
    if isinstance(sampling, Poisson):
        joint, nobody = np.outer(q, q), float(np.prod(1 - q))
    elif isinstance(sampling, Systematic):
        joint, nobody = _systematic_joint(q), max(0.0, 1 - float(q.sum()))
    elif isinstance(sampling, FixedSize):
        joint, nobody = _tournament_joint(q), max(0.0, 1 - float(q.sum()))
    else:
        raise FadewiseError(f"sampling {sampling.kind} is biased: it has no inclusion probabilities")
    np.fill_diagonal(joint, q)
    if sampling.fallback != "none" and q.any():
        # Whoever is asked sends alone: the fallback adds to the diagonal and to nothing else.
        last_resorts = np.flatnonzero(q == q.max())
        joint[last_resorts, last_resorts] += nobody / len(last_resorts)
    return joint


def simple_random_joint(devices: int, participants: int) -> Array:
    """π_ij of a draw of M of N devices in which every subset is as likely: M(M - 1)/(N(N - 1))."""
    checks.whole("devices", devices, least=1)
    checks.whole("participants", participants, least=0, most=devices)
    pair = participants * (participants - 1) / (devices * (devices - 1)) if devices > 1 else 0.0
    joint = np.full((devices, devices), pair)
    np.fill_diagonal(joint, participants / devices)
    return joint


def _updates(updates: ArrayLike) -> Array:
    delta = np.asarray(updates, np.float64)
    if delta.ndim != 2 or not len(delta):
        raise FadewiseError(f"updates have shape {delta.shape}; they must be a row for each device")
    return delta


def _probabilities(probability: ArrayLike) -> Array:
    q = np.asarray(checks.per_device("probability", probability, least=0, most=1))
    if q.ndim != 1:
        raise FadewiseError(f"probability has shape {q.shape}; there must be one for each device")
    return q


def _systematic_joint(q: Array) -> Array:
    """Devices are arcs laid end to end around a circle of length 1; π_ij is how far two overlap."""
    ends = np.cumsum(q)
    starts = ends - q
    cuts = np.unique(np.concatenate([[0.0, 1.0], starts % 1, ends % 1]))
    middles, lengths = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)
    covers: Array = ((middles - starts[:, None]) % 1 < q[:, None]).astype(np.float64)
    joint: Array = covers * lengths @ covers.T
    return joint


class _Node(NamedTuple):
    """A subtree of the tournament after its duels: who carries its value on, and who is in.

    carries[i], is_in[i]: probabilities. both_in[i, j], carries_and_in[i, j]: i carries on and j is in.
    """

    value: float
    carries: Array
    is_in: Array
    both_in: Array
    carries_and_in: Array


def _tournament_joint(q: Array) -> Array:
    """π_ij of `FixedSize`: its tournament played once with probabilities in place of random numbers."""
    playing = np.flatnonzero((q > 0) & (q < 1))
    zero = np.zeros(1)
    nodes = [_Node(float(value), np.ones(1), zero, np.zeros((1, 1)), np.zeros((1, 1))) for value in q[playing]]
    while len(nodes) > 1:
        met = [_duel(a, b) for a, b in zip(nodes[::2], nodes[1::2], strict=False)]
        nodes = met + nodes[2 * len(met) :]
    joint = np.outer(q >= 1, q).astype(np.float64)
    joint = np.maximum(joint, joint.T)
    for node in nodes:
        last = node.value * (node.carries_and_in + node.carries_and_in.T)
        joint[np.ix_(playing, playing)] = node.both_in + last
    return joint


def _duel(a: _Node, b: _Node) -> _Node:
    pool = a.value + b.value
    if pool < 1:
        # One of the carriers carries everything on; nobody gets in.
        a_stays, a_enters = (a.value / pool, 0.0) if pool > 0 else (0.5, 0.0)
        b_stays, b_enters = 1 - a_stays, 0.0
    else:
        # One of the carriers gets in and the other carries the rest on.
        a_enters = (1 - b.value) / (2 - pool)
        b_enters = 1 - a_enters
        a_stays, b_stays = b_enters, a_enters
    # If a's carrier stays on in the second case, b's has got in, and the other way round.
    b_in_if_a_stays = b.is_in + (b.carries if pool >= 1 else 0.0)
    a_in_if_b_stays = a.is_in + (a.carries if pool >= 1 else 0.0)
    across = (
        np.outer(a.is_in, b.is_in) + a_enters * np.outer(a.carries, b.is_in) + b_enters * np.outer(a.is_in, b.carries)
    )
    return _Node(
        value=pool if pool < 1 else pool - 1,
        carries=np.concatenate([a_stays * a.carries, b_stays * b.carries]),
        is_in=np.concatenate([a.is_in + a_enters * a.carries, b.is_in + b_enters * b.carries]),
        both_in=np.block(
            [
                [a.both_in + a_enters * (a.carries_and_in + a.carries_and_in.T), across],
                [across.T, b.both_in + b_enters * (b.carries_and_in + b.carries_and_in.T)],
            ]
        ),
        carries_and_in=np.block(
            [
                [a_stays * a.carries_and_in, a_stays * np.outer(a.carries, b_in_if_a_stays)],
                [b_stays * np.outer(b.carries, a_in_if_b_stays), b_stays * b.carries_and_in],
            ]
        ),
    )
