// A vector of float32 numbers, and the few operations that the kernel is made of.
//
// The compiler's own vectors: +, -, *, comparisons and ?: work on them as on numbers, and a·b + c becomes
// one instruction where the processor has one. Everything here is compiled once for each instruction set,
// in a namespace of its own: code for one processor must never be linked into another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define FADEWISE_INLINE inline __attribute__((always_inline))
#define FADEWISE_APART __attribute__((noinline))
#ifdef __clang__
#define FADEWISE_UNROLL _Pragma("unroll")
#else
#define FADEWISE_UNROLL _Pragma("GCC unroll 32")
#endif

namespace fadewise::FADEWISE_TARGET {

#if defined(__AVX512F__)
constexpr int LANES = 16, REGISTERS = 32;
#elif defined(__AVX__)
constexpr int LANES = 8, REGISTERS = 16;
#elif defined(__aarch64__)
constexpr int LANES = 4, REGISTERS = 32;
#else
constexpr int LANES = 4, REGISTERS = 16;
#endif

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int32_t Whole __attribute__((vector_size(4 * LANES)));
typedef uint32_t Bits __attribute__((vector_size(4 * LANES)));
typedef int16_t Short __attribute__((vector_size(2 * LANES)));

// The same in memory, wherever it lies.
typedef float VectorThere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t WholeThere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int16_t ShortThere __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

FADEWISE_INLINE Vector load(const float* from) { return *reinterpret_cast<const VectorThere*>(from); }
FADEWISE_INLINE void store(float* to, Vector x) { *reinterpret_cast<VectorThere*>(to) = x; }
FADEWISE_INLINE Whole load(const int32_t* from) { return *reinterpret_cast<const WholeThere*>(from); }
FADEWISE_INLINE void store(int32_t* to, Whole x) { *reinterpret_cast<WholeThere*>(to) = x; }

FADEWISE_INLINE Whole load_short(const int16_t* from) {
    return __builtin_convertvector(*reinterpret_cast<const ShortThere*>(from), Whole);
}
FADEWISE_INLINE void store_short(int16_t* to, Whole x) {
    *reinterpret_cast<ShortThere*>(to) = __builtin_convertvector(x, Short);
}

using Lanes = std::make_integer_sequence<int, LANES>;

template <int... I>
FADEWISE_INLINE Vector spread(float x, std::integer_sequence<int, I...>) {
    return Vector{((void)I, x)...};
}
template <int... I>
FADEWISE_INLINE Whole spread(int32_t x, std::integer_sequence<int, I...>) {
    return Whole{((void)I, x)...};
}
template <int... I>
FADEWISE_INLINE Whole counted(std::integer_sequence<int, I...>) {
    return Whole{I...};
}

/// A vector that is loaded once and used several times: GCC would rather load it again for each use, and loads
/// are what there are too few of.
FADEWISE_INLINE Vector load_once(const float* from) {
    Vector x = load(from);
#if defined(__AVX512F__)
    asm("" : "+v"(x));
#elif defined(__x86_64__)
    asm("" : "+x"(x));
#elif defined(__aarch64__)
    asm("" : "+w"(x));
#endif
    return x;
}

/// x in every lane.
FADEWISE_INLINE Vector spread(float x) { return spread(x, Lanes{}); }
FADEWISE_INLINE Whole spread(int32_t x) { return spread(x, Lanes{}); }
/// 0, 1, 2, ...
FADEWISE_INLINE Whole counted() { return counted(Lanes{}); }

/// max(x, 0); what is no number stays none.
FADEWISE_INLINE Vector relu(Vector x) { return x <= Vector{} ? Vector{} : x; }

/// Whether a comparison holds in some lane.
FADEWISE_INLINE bool any(Whole x) {
#ifdef __AVX512F__
    return _mm512_test_epi32_mask((__m512i)x, (__m512i)x) != 0;
#else
    int32_t all = 0;
    FADEWISE_UNROLL
    for (int i = 0; i < LANES; ++i) all |= x[i];
    return all != 0;
#endif
}

/// The largest number; numbers that are none do not count.
FADEWISE_INLINE float largest(Vector x) {
    float found = x[0];
    for (int i = 1; i < LANES; ++i) found = x[i] > found ? x[i] : found;
    return found;
}

// ---- Transposition. A square of numbers is transposed by swapping its off-diagonal quarters and
// transposing all four in the same way: log2(LANES) passes, of which each swaps blocks of one size.

template <class T, int... I>
FADEWISE_INLINE T picked(T a, T b, std::integer_sequence<int, I...>) {
#if __has_builtin(__builtin_shufflevector)
    return __builtin_shufflevector(a, b, I...);
#else
    return __builtin_shuffle(a, b, Whole{I...});
#endif
}

template <int BLOCK, int SECOND, int... I>
constexpr auto swapped(std::integer_sequence<int, I...>) {
    return std::integer_sequence<int, ((I & BLOCK) ? LANES + I - (SECOND ? 0 : BLOCK) : I + (SECOND ? BLOCK : 0))...>{};
}

template <class T, int BLOCK = LANES / 2>
FADEWISE_INLINE void transpose(T (&rows)[LANES]) {
    FADEWISE_UNROLL
    for (int i = 0; i < LANES; ++i) {
        if (i & BLOCK) continue;
        const T a = rows[i], b = rows[i + BLOCK];
        rows[i] = picked(a, b, swapped<BLOCK, 0>(Lanes{}));
        rows[i + BLOCK] = picked(a, b, swapped<BLOCK, 1>(Lanes{}));
    }
    if constexpr (BLOCK > 1) transpose<T, BLOCK / 2>(rows);
}

/// Appends the values that are not 0, each with its place, and says how many those are.
/// Up to LANES numbers behind the last one are overwritten.
FADEWISE_INLINE int append_nonzero(Vector values, Whole places, float* to_values, int32_t* to_places) {
#ifdef __AVX512F__
    const __mmask16 which = _mm512_cmp_ps_mask((__m512)values, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    _mm512_storeu_ps(to_values, _mm512_maskz_compress_ps(which, (__m512)values));
    _mm512_storeu_si512(to_places, _mm512_maskz_compress_epi32(which, (__m512i)places));
    return __builtin_popcount(which);
#else
    int count = 0;
    FADEWISE_UNROLL
    for (int i = 0; i < LANES; ++i) {
        to_values[count] = values[i];
        to_places[count] = places[i];
        count += values[i] != 0;
    }
    return count;
#endif
}

}  // namespace fadewise::FADEWISE_TARGET
