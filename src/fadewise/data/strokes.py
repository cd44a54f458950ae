"""Characters as pen strokes, and pictures of strokes."""

from __future__ import annotations

import functools
import itertools
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadewise.errors import FadewiseError

CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""A label is a character's place in here: the order of LEAF's FEMNIST."""

FONTS = ("futural", "scripts", "timesi", "timesr")
"""Print, joined-up hand, italics and book face. The Roman ones have double lines, which a pen's width closes."""

SIDE = 28
CAPITAL = 21.0
"""Height of a capital letter in the fonts' units."""

POINTS = 56
_WAVES = 4
_STROKES = 4
BENDS = _WAVES * _WAVES - 1 + _STROKES

_CHUNK = 32  # what is computed at once stays in the second-level cache

Floats = NDArray[np.float32]


class Glyphs(NamedTuple):
    """All characters of all fonts, in fonts' units, each centred on its middle; y points down.

    points: (font, character, axis, point): places at equal distances along the strokes.
    lengths: (font, character): how long the strokes are together.
    bends: (font, character, bend, point): how far each bend moves each point, see `_bends`.
    digest: of all of these, for who keeps what was drawn with them.
    """

    points: Floats
    lengths: Floats
    bends: Floats
    digest: int


@functools.cache
def glyphs() -> Glyphs:
    """The Hershey fonts (A. V. Hershey, U.S. National Bureau of Standards, 1967)."""
    try:
        from HersheyFonts import HersheyFonts
    except ImportError:
        raise FadewiseError("the handwriting set needs Hershey-Fonts: pip install 'fadewise[train]'") from None
    points = np.empty((len(FONTS), len(CHARACTERS), 2, POINTS), np.float32)
    lengths = np.empty(points.shape[:2], np.float32)
    bends = np.empty((*points.shape[:2], BENDS, POINTS), np.float32)
    for f, name in enumerate(FONTS):
        font = HersheyFonts()
        font.load_default_font(name)
        for c, glyph in enumerate(font.glyphs_for_text(CHARACTERS)):
            strokes = [np.array(list(stroke), np.float64) for stroke in glyph.strokes]
            along, length, stroke = _along(strokes)
            corners = np.concatenate(strokes)
            along -= (corners.min(axis=0) + corners.max(axis=0)) / 2
            points[f, c], lengths[f, c], bends[f, c] = along.T, length, _bends(along, stroke)
    return Glyphs(points, lengths, bends, zlib.crc32(points.tobytes() + bends.tobytes()))


def _along(strokes: list[NDArray[np.float64]]) -> tuple[NDArray[np.float64], float, NDArray[np.int64]]:
    """Points at equal distances along strokes, the strokes' length, and which stroke each point is on."""
    steps = [np.hypot(*np.diff(stroke, axis=0).T) for stroke in strokes]
    ends = np.cumsum([step.sum() for step in steps])
    # From one stroke to the next the pen is up, which takes no length.
    at = np.concatenate([start + np.append(0, np.cumsum(step)) for start, step in zip((0, *ends), steps, strict=False)])
    wanted = (np.arange(POINTS) + 0.5) / POINTS * ends[-1]
    corners = np.concatenate(strokes)
    points = np.stack([np.interp(wanted, at, corners[:, axis]) for axis in (0, 1)], axis=1)
    return points, float(ends[-1]), np.searchsorted(ends, wanted)


def _bends(points: NDArray[np.float64], stroke: NDArray[np.int64]) -> NDArray[np.float64]:
    """Ways to bend a character: waves over the paper, long ones stronger, and shifts of single strokes."""
    phase = np.pi * (points / (1.6 * CAPITAL) + 0.5)
    waves = [
        np.cos(i * phase[:, 0]) * np.cos(j * phase[:, 1]) / np.hypot(i, j)
        for i, j in itertools.product(range(_WAVES), repeat=2)
        if i or j
    ]
    shifts = [0.5 * (stroke == k) for k in range(_STROKES)]
    return np.stack(waves + shifts)


def drawn(points: Floats, lengths: Floats, nibs: Floats, darkness: Floats) -> NDArray[np.uint8]:
    """Pictures of characters, (samples, 28, 28, 1), dark ink on white paper.

    The pen's nib is a round Gaussian. Ink is its integral along the strokes, cut off where little or much has
    come together. A round Gaussian is a product of one in x and one in y, so that the integral is a product of
    two matrices: no pixel has to look for its nearest stroke.

    points: (samples, axis, point), in pixels from the picture's middle.
    lengths: of the strokes, in pixels.
    nibs: the nibs' deviations in pixels; a stroke is 2.4 times as wide.
    darkness: of the ink, from 0 to 1.
    """
    pictures = np.empty((len(points), SIDE, SIDE, 1), np.uint8)
    grid = np.arange(SIDE, dtype=np.float32)[:, None] - np.float32((SIDE - 1) / 2)
    for first in range(0, len(points), _CHUNK):
        part = slice(first, first + _CHUNK)
        nib = nibs[part, None, None]
        near = grid - points[part, :, None, :]
        np.square(near, out=near)
        near *= (np.float32(-0.5) / (nib * nib))[..., None]
        # Products of what is far smaller would be denormal numbers, which take a hundred times as long.
        np.maximum(near, np.float32(-40), out=near)
        np.exp(near, out=near)
        ink = near[:, 1] @ near[:, 0].transpose(0, 2, 1)
        # In the middle of a straight line this is 1.
        ink *= lengths[part, None, None] / (np.float32(POINTS * np.sqrt(2 * np.pi)) * nib)
        ink = np.clip(2 * ink - np.float32(0.5), 0, 1)
        ink *= -255 * darkness[part, None, None]
        pictures[part, ..., 0] = np.rint(ink + np.float32(255))
    return pictures
