// Winograd's convolution F(2, K): two outputs of a K-tap filter from K + 1 multiplications instead of 2·K.
//
// K taps g over K + 1 inputs d are a product of polynomials, and a polynomial is known from its values at
// as many points as it has coefficients: y = Aᵀ[(G·g) ∘ (Bᵀ·d)], where Bᵀ and G take values at the points
// 0, 1, -1 (, 2, -2 for K = 5) and infinity, and Aᵀ goes back. In two dimensions the same along both, so a
// 2×2 tile of a 5×5 convolution takes 36 multiplications instead of 100, one of a 3×3 convolution 16
// instead of 36. Larger tiles save more but round worse; a 2×2 tile is also just what pooling wants.
//
// Everything is written with differences first: where the inputs are constant they vanish exactly, whatever
// the rounding, and equal outputs come out as equal bits, so that pooling sees the ties that PyTorch sees.
#pragma once

#include "vector.hpp"

namespace fadewise::FADEWISE_TARGET {

/// Bᵀ·d: inputs to points.
template <int K>
FADEWISE_INLINE void input_to_points(const Vector (&d)[K + 1], Vector (&o)[K + 1]) {
    if constexpr (K == 3) {
        o[0] = d[0] - d[2];
        o[1] = d[2] + d[1];
        o[2] = d[2] - d[1];
        o[3] = d[3] - d[1];
    } else {
        const Vector even = d[4] - 4.0f * d[2], odd = d[3] - 4.0f * d[1];
        const Vector near = d[4] - d[2], far = d[3] - d[1];
        o[0] = near + 4.0f * (d[0] - d[2]);
        o[1] = even + odd;
        o[2] = even - odd;
        o[3] = near + 2.0f * far;
        o[4] = near - 2.0f * far;
        o[5] = (d[5] - d[3]) - 4.0f * far;
    }
}

/// G·g: filter taps to points.
template <int K>
FADEWISE_INLINE void filter_to_points(const Vector (&g)[K], Vector (&o)[K + 1]) {
    if constexpr (K == 3) {
        const Vector even = g[0] + g[2];
        o[0] = g[0];
        o[1] = 0.5f * (even + g[1]);
        o[2] = 0.5f * (even - g[1]);
        o[3] = g[2];
    } else {
        const Vector even = g[0] + g[2] + g[4], odd = g[1] + g[3];
        const Vector even2 = g[0] + 4.0f * g[2] + 16.0f * g[4], odd2 = 2.0f * g[1] + 8.0f * g[3];
        o[0] = 0.25f * g[0];
        o[1] = (-1.0f / 6) * (even + odd);
        o[2] = (-1.0f / 6) * (even - odd);
        o[3] = (1.0f / 24) * (even2 + odd2);
        o[4] = (1.0f / 24) * (even2 - odd2);
        o[5] = g[4];
    }
}

/// Aᵀ·m: products at the points to two outputs.
template <int K>
FADEWISE_INLINE void points_to_output(const Vector (&m)[K + 1], Vector& first, Vector& second) {
    if constexpr (K == 3) {
        first = m[0] + (m[1] + m[2]);
        second = (m[1] - m[2]) + m[3];
    } else {
        first = m[0] + (m[1] + m[2]) + (m[3] + m[4]);
        second = (m[1] - m[2]) + 2.0f * (m[3] - m[4]) + m[5];
    }
}

/// G·g·Gᵀ of K×K filters, one a lane.
template <int K>
FADEWISE_INLINE void filters_to_points(const Vector (&g)[K][K], Vector (&o)[K + 1][K + 1]) {
    Vector columns[K + 1][K];
    FADEWISE_UNROLL
    for (int x = 0; x < K; ++x) {
        Vector taps[K], points[K + 1];
        FADEWISE_UNROLL
        for (int y = 0; y < K; ++y) taps[y] = g[y][x];
        filter_to_points<K>(taps, points);
        FADEWISE_UNROLL
        for (int y = 0; y <= K; ++y) columns[y][x] = points[y];
    }
    FADEWISE_UNROLL
    for (int y = 0; y <= K; ++y) filter_to_points<K>(columns[y], o[y]);
}

}  // namespace fadewise::FADEWISE_TARGET
