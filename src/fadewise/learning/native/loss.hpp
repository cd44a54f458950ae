// Softmax and cross-entropy of a minibatch whose logits lie by lane: a lane a sample, so that the maximum
// and the sum over classes are plain vector operations.
//
// loss = m - z[label] + log Σ exp(z - m), m the largest logit; its gradient is softmax(z) less 1 at the label.
#pragma once

#include <math.h>

#include "product.hpp"

namespace fadewise::FADEWISE_TARGET {

/// exp(x) for x ≤ 0, to about an ulp: 2ⁿ·exp(r) with |r| ≤ log(2)/2 and Cephes's polynomial for exp(r).
FADEWISE_INLINE Vector exponential(Vector x) {
    constexpr float ROUNDER = 12582912.0f;  // 1.5·2²³: a number added to it keeps no fraction
    x = x < -87.0f ? spread(-87.0f) : x;
    const Vector shifted = x * 1.44269504088896341f + ROUNDER;
    const Vector n = shifted - ROUNDER;
    Vector r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    // The last bits of `shifted` are n; in the exponent's place they are 2ⁿ. If x is no number, neither is p.
    const Bits power = (reinterpret_cast<Bits>(shifted) + 127u) << 23;
    return p * reinterpret_cast<Vector>(power);
}

/// Replaces logits by the gradient of the mean loss, and writes each sample's loss.
inline void softmax_cross_entropy(float* logits, int classes, const int32_t* labels, int batch, double* losses) {
    const int rows = rounded_up(classes, LANES);
    for (int first = 0; first < batch; first += LANES) {
        float* z = logits + panel_at(first, rows);
        Vector largest = load(z);
        for (int k = 1; k < classes; ++k) {
            const Vector here = load(z + k * PANEL);
            largest = here > largest ? here : largest;
        }
        const int count = batch - first < LANES ? batch - first : LANES;
        for (int b = 0; b < count; ++b)
            losses[first + b] = static_cast<double>(largest[b]) - z[labels[first + b] * PANEL + b];
        Vector sum{};
        for (int k = 0; k < classes; ++k) {
            const Vector e = exponential(load(z + k * PANEL) - largest);
            store(z + k * PANEL, e);
            sum += e;
        }
        const Vector share = 1.0f / (sum * static_cast<float>(batch));
        for (int k = 0; k < classes; ++k) store(z + k * PANEL, load(z + k * PANEL) * share);
        for (int b = 0; b < count; ++b) {
            losses[first + b] += log(static_cast<double>(sum[b]));
            z[labels[first + b] * PANEL + b] -= 1.0f / static_cast<float>(batch);
        }
    }
}

/// The first of the largest logits; one that is no number counts as the largest, as in PyTorch.
inline int predicted(const float* logits, int classes, int sample) {
    const float* z = logits + panel_at(sample, rounded_up(classes, LANES));
    int best = 0;
    for (int k = 1; k < classes; ++k) {
        const float here = z[k * PANEL], top = z[best * PANEL];
        if (here > top || (here != here && top == top)) best = k;
    }
    return best;
}

}  // namespace fadewise::FADEWISE_TARGET
