"""Writers: whose hand is how, which characters each writes how often, and every single sample of theirs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise.data import strokes
from fadewise.data.base import Images, Labels
from fadewise.data.strokes import BENDS, CAPITAL, CHARACTERS, FONTS, Floats
from fadewise.randomness import Stream

FEWEST = 8
CLASSES = len(CHARACTERS)

_SPREAD = 0.4  # of the logarithm of how much a writer writes; FEMNIST's is as wide
_FREQUENCIES = np.array(
    [403] * 10
    + [75, 45, 118, 53, 58, 106, 30, 37, 140, 44, 28, 59, 105, 96, 291, 97, 30, 59, 243, 114, 146, 54, 55, 32, 55, 32]
    + [117, 60, 33, 119, 287, 30, 43, 102, 32, 22, 30, 179, 31, 133, 32, 28, 35, 164, 31, 212, 33, 34, 32, 33, 27, 32]
)
"""How many hundreds of each character NIST's writers wrote (Cohen et al., EMNIST, 2017; digits evened out)."""

_FONTS = np.cumsum((0.6, 0.14, 0.13, 0.13))  # which is a writer's own
_OWN_FONT = 0.8  # of a writer's characters; the others are like another's

# Deviations, of writers and of one writer's samples.
_HANDS = {"slant": 0.22, "size": 0.15, "small": 0.12, "aspect": 0.14, "tilt": 0.06, "nib": 0.22, "x": 0.7, "y": 0.7}
_SAMPLES = {"slant": 0.08, "size": 0.10, "tilt": 0.06, "aspect": 0.10, "nib": 0.08, "x": 0.5, "y": 0.5}
_HAND_BENDS, _LETTER_BENDS, _SAMPLE_BENDS = 0.8, 1.1, 0.6  # in fonts' units
_CAPITAL_PIXELS = 10.5
_NIB_PIXELS, _THINNEST_PIXELS = 0.55, 0.4  # thinner nibs would show the points that a stroke is made of
_MEAN_SLANT = 0.1

_FIRST_SMALL = CHARACTERS.index("a")
_BATCH = 1024
_JITTERS = 8
_WORDS = 2 * BENDS + _JITTERS + 2  # the last two: which character, and one to spare
assert _WORDS % 4 == 0, "a sample's words are whole blocks of the generator"


class Hand(NamedTuple):
    """What is a writer's own.

    letters: the cumulative frequencies of the characters.
    fonts: for each character, which font's is like this writer's.
    bends: (character, axis, bend): how far each is bent.
    """

    letters: NDArray[np.float64]
    fonts: NDArray[np.int64]
    bends: Floats
    slant: float
    size: float
    small: float
    aspect: float
    tilt: float
    nib: float
    x: float
    y: float
    darkness: float


def amounts(seed: int, samples_per_writer: float, writers: int) -> NDArray[np.int64]:
    """How many samples each writer wrote: log-normal, but `FEWEST` at least."""
    stream = Stream(seed, 0)
    words = [stream.uniforms(f"handwriting amount {word}", writers) for word in ("radius", "angle")]
    normal = np.sqrt(-2 * np.log1p(-words[0])) * np.cos(2 * np.pi * words[1])
    amount = samples_per_writer * np.exp(_SPREAD * normal - _SPREAD**2 / 2)
    result: NDArray[np.int64] = np.maximum(np.rint(amount), FEWEST).astype(np.int64)
    return result


def hand(seed: int, writer: int) -> Hand:
    """A writer's hand, from the writer's number alone."""
    counts = (CLASSES, CLASSES, CLASSES, 2, len(_HANDS), 2 * BENDS, CLASSES * 2 * BENDS)
    words = Stream(seed, writer).uniforms("handwriting hand", sum(counts))
    tilts, strays, others, own, traits, general, special = np.split(words, np.cumsum(counts)[:-1])
    # Weights that are uniform among all that sum to 1 (a flat Dirichlet's), times the characters' own.
    letters = np.cumsum(-np.log1p(-tilts) * _FREQUENCIES)
    fonts = np.searchsorted(_FONTS, np.where(strays < _OWN_FONT, own[0], others), side="right")
    bends = _HAND_BENDS * _normal(general).reshape(2, BENDS)
    bends = bends + _LETTER_BENDS * _normal(special).reshape(CLASSES, 2, BENDS)
    normal = dict(zip(_HANDS, _normal(traits) * list(_HANDS.values()), strict=True))
    return Hand(
        letters=letters / letters[-1],
        fonts=np.minimum(fonts, len(FONTS) - 1),
        bends=bends.astype(np.float32),
        darkness=0.65 + 0.35 * float(own[1]),
        **normal,
    )


def samples(seed: int, writer: int, first: int, count: int) -> tuple[Images, Labels]:
    """Some of a writer's samples, from their numbers alone: sample n owns words n·_WORDS to (n + 1)·_WORDS - 1."""
    own = hand(seed, writer)
    images, labels = np.empty((count, strokes.SIDE, strokes.SIDE, 1), np.uint8), np.empty(count, np.int32)
    for start in range(0, count, _BATCH):
        some = slice(start, min(start + _BATCH, count))
        stream = Stream(seed, writer, (first + start) * _WORDS)
        words = stream.uniforms("handwriting sample", (some.stop - start) * _WORDS).reshape(-1, _WORDS)
        labels[some] = np.searchsorted(own.letters, words[:, -1], side="right")
        images[some] = _written(own, labels[some], _normal(words[:, :-2]))
    return images, labels


def _written(own: Hand, labels: Labels, normal: NDArray[np.float64]) -> Images:
    """These characters in a writer's hand, each with Gaussians of its own that say how it came out."""
    glyphs = strokes.glyphs()
    font = own.fonts[labels]
    bends = _SAMPLE_BENDS * normal[:, _JITTERS:].reshape(-1, 2, BENDS)
    bent = glyphs.points[font, labels] + (own.bends[labels] + bends.astype(np.float32)) @ glyphs.bends[font, labels]
    x, y = bent[:, 0], bent[:, 1]
    jitter = {name: deviation * normal[:, n] for n, (name, deviation) in enumerate(_SAMPLES.items())}
    small = np.where(labels >= _FIRST_SMALL, own.small, 0.0)
    scale = _CAPITAL_PIXELS / CAPITAL * np.exp(own.size + small + jitter["size"])
    aspect = np.exp((own.aspect + jitter["aspect"]) / 2)
    slant, tilt = _MEAN_SLANT + own.slant + jitter["slant"], own.tilt + jitter["tilt"]
    columns = _column(scale * aspect) * x - _column(scale * slant) * y + _column(own.x + jitter["x"])
    rows = _column(scale / aspect) * y + _column(scale * tilt) * x + _column(own.y + jitter["y"])
    nibs = np.maximum(_NIB_PIXELS * np.exp(own.nib + jitter["nib"]), _THINNEST_PIXELS)
    return strokes.drawn(
        np.stack((columns, rows), axis=1),
        (scale * glyphs.lengths[font, labels]).astype(np.float32),
        nibs.astype(np.float32),
        np.full(len(labels), own.darkness, np.float32),
    )


def _column(values: NDArray[np.float64]) -> Floats:
    return values.astype(np.float32)[:, None]


def _normal(words: NDArray[np.float64]) -> NDArray[np.float64]:
    """As many standard Gaussians as there are words in the last axis, an even number (Box and Muller)."""
    half = words.shape[-1] // 2
    radius = np.sqrt(-2 * np.log1p(-words[..., :half]))
    angle = 2 * np.pi * words[..., half:]
    return np.concatenate((radius * np.cos(angle), radius * np.sin(angle)), axis=-1)
