// Bias, 2×2 max-pooling and ReLU, on four sums that are still in registers.
//
// Pooling and ReLU commute, and so do pooling and adding a bias, so all that is kept of four outputs of a
// convolution is one number, and from which of the four it came: that is where the gradient goes, and it
// goes nowhere if ReLU stopped the number. A convolution's output itself is never stored.
#pragma once

#include "vector.hpp"

namespace fadewise::FADEWISE_TARGET {

constexpr int NOWHERE = -1;

struct Pooled {
    Vector value;
    Whole place;
};

/// The four are the window in row-major order; their places are `at`, `at` + 1, `at` + `down` and that + 1.
/// As PyTorch has it, the first of equal numbers wins, and one that is no number (NaN) wins over all.
FADEWISE_INLINE Pooled pooled(Vector a, Vector b, Vector c, Vector d, Vector bias, int at,
                              int down) {
    Vector best = a;
    Whole place = spread(at);
    const auto consider = [&](Vector x, int where) {
        const Whole better = (x > best) | (x != x);
        best = better ? x : best;
        place = better ? spread(where) : place;
    };
    consider(b, at + 1);
    consider(c, at + down);
    consider(d, at + down + 1);
    best += bias;
    const Whole stopped = best <= Vector{};
    return {stopped ? Vector{} : best, stopped ? spread(NOWHERE) : place};
}

}  // namespace fadewise::FADEWISE_TARGET
