// Matrix products, C = A·B, in blocks that stay in registers.
//
// Of C, ROWS × VECTORS vectors are summed at a time: each step along the depth takes VECTORS loads from B
// and ROWS numbers from A, and gives ROWS·VECTORS multiply-adds. With 14 × 2 that is 16 loads for 28
// multiply-adds, so the multipliers set the pace and not memory; there are enough sums to hide a
// multiply-add's latency, and the registers hold them all.
//
// All matrices lie in panels: PANEL columns of all rows, one row after the other, then the next panel. A
// block of B is then one stretch of memory, and neighbouring rows of A are at a distance that the compiler
// knows.
#pragma once

#include "vector.hpp"

namespace fadewise::FADEWISE_TARGET {

constexpr int PANEL = 2 * LANES;

/// What is left of the registers after two vectors of B and one number of A.
#if defined(__FMA__) || defined(__aarch64__)
constexpr int MOST_SUMS = REGISTERS - 4;
#else
constexpr int MOST_SUMS = REGISTERS - 6;  // a product needs a place before it is added
#endif
constexpr int MOST_ROWS = MOST_SUMS / 2;

FADEWISE_INLINE constexpr int rounded_up(int n, int to) { return (n + to - 1) / to * to; }

/// Where column `column` of a matrix of `rows` rows begins.
FADEWISE_INLINE ptrdiff_t panel_at(int column, int rows) {
    return static_cast<ptrdiff_t>(column / PANEL) * rows * PANEL + column % PANEL;
}

/// sum[i] += Σ_k a[place(i) + k·step] · b[k], with b's rows PANEL apart.
template <int ROWS, int VECTORS, class Place>
FADEWISE_INLINE void accumulate(Vector (&sum)[ROWS][VECTORS], const float* a, Place place, int step, const float* b,
                                int depth) {
#pragma GCC unroll 1
    for (int k = 0; k < depth; ++k, a += step, b += PANEL) {
        Vector row[VECTORS];
        FADEWISE_UNROLL
        for (int v = 0; v < VECTORS; ++v) row[v] = load(b + v * LANES);
        FADEWISE_UNROLL
        for (int i = 0; i < ROWS; ++i) {
            const Vector factor = spread(a[place(i)]);
            FADEWISE_UNROLL
            for (int v = 0; v < VECTORS; ++v) sum[i][v] += factor * row[v];
        }
    }
}

template <int ROWS, int VECTORS>
FADEWISE_APART void product_block(const float* a, ptrdiff_t a_panel, const float* b, int depth, float* c, bool add) {
    Vector sum[ROWS][VECTORS];
    FADEWISE_UNROLL
    for (int i = 0; i < ROWS; ++i) {
        FADEWISE_UNROLL
        for (int v = 0; v < VECTORS; ++v) sum[i][v] = add ? load(c + i * PANEL + v * LANES) : Vector{};
    }
    for (; depth > 0; depth -= PANEL, a += a_panel, b += PANEL * PANEL)
        accumulate(sum, a, [](int i) { return i * PANEL; }, 1, b, depth < PANEL ? depth : PANEL);
    FADEWISE_UNROLL
    for (int i = 0; i < ROWS; ++i) {
        FADEWISE_UNROLL
        for (int v = 0; v < VECTORS; ++v) store(c + i * PANEL + v * LANES, sum[i][v]);
    }
}

template <int ROWS, int VECTORS>
FADEWISE_APART void descent_block(const float* a, const float* b, int depth, float step_size, float* c) {
    Vector sum[ROWS][VECTORS] = {};
    accumulate(sum, a, [](int i) { return i; }, PANEL, b, depth);
    const Vector rate = spread(step_size);
    FADEWISE_UNROLL
    for (int i = 0; i < ROWS; ++i) {
        FADEWISE_UNROLL
        for (int v = 0; v < VECTORS; ++v) {
            float* to = c + i * PANEL + v * LANES;
            store(to, load(to) - rate * sum[i][v]);
        }
    }
}

/// Calls `block` with n as a constant of the compiler's.
template <int LARGEST, class Block>
FADEWISE_INLINE void with_constant(int n, Block block) {
    if constexpr (LARGEST > 1) {
        if (n < LARGEST) return with_constant<LARGEST - 1>(n, block);
    }
    block(std::integral_constant<int, LARGEST>{});
}

/// Cuts `count` into as few parts of at most LARGEST as there can be, as equal as they can be.
template <int LARGEST, class Part>
FADEWISE_INLINE void in_equal_parts(int count, Part part) {
    const int parts = (count + LARGEST - 1) / LARGEST;
    for (int i = 0, first = 0; i < parts; ++i) {
        const int next = (i + 1) * count / parts;
        part(first, next - first);
        first = next;
    }
}

/// One panel of C, of which `columns` are wanted: C = A·B, or C += A·B.
inline void product(const float* a, ptrdiff_t a_panel, const float* b, int rows, int columns, int depth, float* c,
                    bool add) {
    in_equal_parts<MOST_ROWS>(rows, [=](int first, int count) {
        const float* from = a + first * PANEL;
        float* to = c + first * PANEL;
        with_constant<MOST_ROWS>(count, [=](auto n) {
            if (columns > LANES) product_block<n, 2>(from, a_panel, b, depth, to, add);
            else product_block<n, 1>(from, a_panel, b, depth, to, add);
        });
    });
}

/// One panel of C: C -= step_size·Aᵀ·B, where A is one panel too: the gradient itself is never stored.
inline void descent(const float* a, const float* b, int rows, int columns, int depth, float step_size, float* c) {
    in_equal_parts<MOST_ROWS>(rows, [=](int first, int count) {
        float* to = c + first * PANEL;
        with_constant<MOST_ROWS>(count, [=](auto n) {
            if (columns > LANES) descent_block<n, 2>(a + first, b, depth, step_size, to);
            else descent_block<n, 1>(a + first, b, depth, step_size, to);
        });
    });
}

}  // namespace fadewise::FADEWISE_TARGET
