// Bias, 2×2 max-pooling and ReLU, on four sums that are still in registers.
//
// Pooling and ReLU commute, and so do pooling and adding a bias, so all that is kept of four outputs of a
// convolution is one number, and from which of the four it came: that is where the gradient goes, and it
// goes nowhere if ReLU stopped the number. A convolution's output itself is never stored.
//
// Which of the four wins, and whether it is above 0, is a matter of rounding where it is close, and the sums here
// are Winograd's, which round worse than plain ones. Such windows are rare, so they are decided in float64 by the
// definition of a convolution. Equal sums and sums of 0 are not in doubt: where an image is flat or black, they are so
// by construction.
#pragma once

#include <math.h>

#include "vector.hpp"

namespace fadewise::FADEWISE_TARGET {

constexpr int NOWHERE = -1;

struct Pooled {
    Vector value;
    Whole place;
    Whole close;  // where rounding may have decided
};

/// How far from the exact sum one of Winograd's may be, as a part of ‖filter‖·√taps·(the largest input): far more than
/// it is as a rule. Less would miss some, more would only take longer.
constexpr float ROUNDING = 2e-7f;

/// For each filter, what its sums may be off by where the largest input is `most`. Nothing is in doubt of what is not
/// finite.
inline void find_doubts(const float* filters, int count, int taps, float most, float* doubts) {
    for (int i = 0; i < count; ++i, filters += taps) {
        double squares = 0;
        for (int k = 0; k < taps; ++k) squares += static_cast<double>(filters[k]) * filters[k];
        const float doubt = ROUNDING * most * static_cast<float>(sqrt(squares * taps));
        doubts[i] = isfinite(doubt) ? doubt : 0;
    }
}

/// The four are the window in row-major order; their places are `at`, `at` + 1, `at` + `down` and that + 1.
/// As PyTorch has it, the first of equal numbers wins, and one that is no number (NaN) wins over all.
FADEWISE_INLINE Pooled pooled(Vector a, Vector b, Vector c, Vector d, Vector bias, Vector doubt, int at, int down) {
    Vector best = a, second = spread(-INFINITY);
    Whole place = spread(at);
    const auto consider = [&](Vector x, int where) {
        const Whole better = (x > best) | (x != x);
        const Vector worse = better ? best : x;
        second = worse > second ? worse : second;
        best = better ? x : best;
        place = better ? spread(where) : place;
    };
    consider(b, at + 1);
    consider(c, at + down);
    consider(d, at + down + 1);
    const Vector lead = best - second, value = best + bias;
    // Positive numbers are ordered as their bits are; less 1, a 0 that is meant is the largest of all.
    const Bits by = reinterpret_cast<Bits>(lead) - 1u;
    const Bits size = (reinterpret_cast<Bits>(value) & 0x7fffffffu) - (best == Vector{} ? 1u : 0u);
    const Whole close = (by < size ? by : size) < reinterpret_cast<Bits>(doubt);
    const Whole stopped = value <= Vector{};
    return {stopped ? Vector{} : value, stopped ? spread(NOWHERE) : place, close};
}

/// Decides where it was close, in what has been stored; sum(lane, y, x) is an output of the window in float64.
template <class Place, class Sum>
FADEWISE_APART void settle(Whole close, const float* bias, int at, int down, float* values, Place* places, Sum sum) {
    for (int lane = 0; lane < LANES; ++lane) {
        if (!close[lane]) continue;
        double best = 0;
        int place = NOWHERE;
        for (int i = 0; i < 4; ++i) {
            const double x = sum(lane, i / 2, i % 2);
            if (i == 0 || x > best || x != x) {
                best = x;
                place = at + i / 2 * down + i % 2;
            }
        }
        best += bias[lane];
        values[lane] = best <= 0 ? 0 : static_cast<float>(best);
        places[lane] = static_cast<Place>(best <= 0 ? NOWHERE : place);
    }
}

}  // namespace fadewise::FADEWISE_TARGET
