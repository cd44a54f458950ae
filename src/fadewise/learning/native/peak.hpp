// How many multiply-adds a core can do at best: what `benchmarks/kernel.py` holds the kernel against.
//
// Sums that do not wait for each other, as many as the registers hold, and nothing to load or store: then the
// multipliers never idle. Where the processor has no fused multiply-add, a multiplication and an addition
// count as one.
#pragma once

#include "vector.hpp"

namespace fadewise::FADEWISE_TARGET {

/// Takes so many rounds of a multiply-add on each lane of each sum, and says how many that were.
int64_t multiply_adds(int64_t rounds) {
    constexpr int SUMS = REGISTERS - 2;
    const float numbers[2 * LANES] = {};
    const Vector factor = load_once(numbers), term = load_once(numbers + LANES);
    Vector sum[SUMS];
    FADEWISE_UNROLL
    for (int i = 0; i < SUMS; ++i) sum[i] = spread(static_cast<float>(i));
#pragma GCC unroll 1
    for (int64_t round = 0; round < rounds; ++round) {
        FADEWISE_UNROLL
        for (int i = 0; i < SUMS; ++i) sum[i] = sum[i] * factor + term;
    }
    FADEWISE_UNROLL
    for (int i = 1; i < SUMS; ++i) sum[0] += sum[i];
    [[maybe_unused]] const volatile Vector wanted = sum[0];  // else the compiler would see that nobody asks
    return rounds * SUMS * LANES;
}

}  // namespace fadewise::FADEWISE_TARGET
