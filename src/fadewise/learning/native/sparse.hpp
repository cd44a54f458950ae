// A convolution's weight gradient, from the numbers that are not zero.
//
// dW[map] = Σ over pixels of gradient·patch. Pooling sends a gradient to one pixel in four at most and ReLU
// stops many more, so for each map there is a list of (gradient, where its patch begins), and only those
// patches are added up. Nothing is approximated: what is left out is 0 times something.
//
// A map's sums stay in registers while its whole list goes by.
#pragma once

#include "pooling.hpp"
#include "product.hpp"

namespace fadewise::FADEWISE_TARGET {

/// For each map a list; `capacity` is what a list has room for, with LANES to spare.
struct Lists {
    float* values;
    int32_t* places;
    int* counts;
    int capacity;

    void append(int map, Vector value, Whole place) const {
        const ptrdiff_t end = static_cast<ptrdiff_t>(map) * capacity + counts[map];
        counts[map] += append_nonzero(value, place, values + end, places + end);
    }
};

/// Lists a gradient that lies as (window, map), with places relative to windows that begin at `starts`, and
/// adds each map's sum to `bias`. The windows are padded with zeros to a whole number of vectors.
FADEWISE_APART void list_by_window(const float* gradient, const int16_t* places, const int32_t* starts, int windows,
                                   int lanes, float* bias, const Lists& lists) {
    for (int map = 0; map < lanes; map += LANES) {
        Vector total = load(bias + map);
        for (int l = 0; l < LANES; ++l) lists.counts[map + l] = 0;
        for (int window = 0; window < windows; window += LANES) {
            Vector value[LANES];
            Whole place[LANES];
            FADEWISE_UNROLL
            for (int i = 0; i < LANES; ++i) {
                const ptrdiff_t at = static_cast<ptrdiff_t>(window + i) * lanes + map;
                const Whole relative = load_short(places + at);
                value[i] = relative == NOWHERE ? Vector{} : load(gradient + at);
                total += value[i];
                place[i] = relative + starts[window + i];
            }
            transpose(value);
            transpose(place);
            FADEWISE_UNROLL
            for (int i = 0; i < LANES; ++i) lists.append(map + i, value[i], place[i]);
        }
        store(bias + map, total);
    }
}

/// Lists a gradient that lies as (map, window), and adds each map's sum to `bias`.
FADEWISE_APART void list_by_map(const float* gradient, const int32_t* places, int windows, int maps, float* bias,
                                const Lists& lists) {
    for (int map = 0; map < maps; ++map, gradient += windows, places += windows) {
        lists.counts[map] = 0;
        Vector total{};
        for (int window = 0; window < windows; window += LANES) {
            const Whole place = load(places + window);
            const Whole stopped = (place == NOWHERE) | (counted() >= windows - window);
            const Vector value = stopped ? Vector{} : load(gradient + window);
            total += value;
            lists.append(map, value, place);
        }
        for (int l = 0; l < LANES; ++l) bias[map] += total[l];
    }
}

/// sum[row][column] += Σ over the list of value·image[pixel·place + row·row_step + column·column_step].
/// SETS sums take turns where one alone would wait for its own last multiply-add.
template <int ROWS, int COLUMNS>
FADEWISE_APART void add_patches(const float* values, const int32_t* places, int count, const float* image, int pixel,
                                ptrdiff_t row_step, ptrdiff_t column_step, float* sum) {
    constexpr int SETS = ROWS * COLUMNS < 8 && 2 * ROWS * COLUMNS <= MOST_SUMS ? 2 : 1;
    Vector total[SETS][ROWS][COLUMNS] = {};
    FADEWISE_UNROLL
    for (int i = 0; i < ROWS * COLUMNS; ++i) total[0][i / COLUMNS][i % COLUMNS] = load(sum + i * LANES);
    const auto add = [&](int entry, Vector(&to)[ROWS][COLUMNS]) __attribute__((always_inline)) {
        const Vector value = spread(values[entry]);
        const float* patch = image + static_cast<ptrdiff_t>(places[entry]) * pixel;
        FADEWISE_UNROLL
        for (int y = 0; y < ROWS; ++y) {
            FADEWISE_UNROLL
            for (int x = 0; x < COLUMNS; ++x) to[y][x] += value * load(patch + y * row_step + x * column_step);
        }
    };
    int entry = 0;
#pragma GCC unroll 1
    for (; entry + SETS <= count; entry += SETS) {
        FADEWISE_UNROLL
        for (int s = 0; s < SETS; ++s) add(entry + s, total[s]);
    }
    if (SETS > 1 && entry < count) add(entry, total[0]);
    FADEWISE_UNROLL
    for (int i = 0; i < ROWS * COLUMNS; ++i) {
        Vector all = total[0][i / COLUMNS][i % COLUMNS];
        FADEWISE_UNROLL
        for (int s = 1; s < SETS; ++s) all += total[s][i / COLUMNS][i % COLUMNS];
        store(sum + i * LANES, all);
    }
}

/// A map's K rows of COLUMNS vectors each, as many rows at once as the registers hold.
template <int K, int COLUMNS>
FADEWISE_INLINE void add_patch_rows(const Lists& lists, int map, const float* image, int pixel, ptrdiff_t row_step,
                                    ptrdiff_t column_step, float* sum) {
    constexpr int AT_ONCE = MOST_SUMS / COLUMNS < K ? MOST_SUMS / COLUMNS : K, REST = K % AT_ONCE;
    const float* values = lists.values + static_cast<ptrdiff_t>(map) * lists.capacity;
    const int32_t* places = lists.places + static_cast<ptrdiff_t>(map) * lists.capacity;
    int y = 0;
    for (; y + AT_ONCE <= K; y += AT_ONCE)
        add_patches<AT_ONCE, COLUMNS>(values, places, lists.counts[map], image + y * row_step, pixel, row_step,
                                      column_step, sum + y * COLUMNS * LANES);
    if constexpr (REST > 0)
        add_patches<REST, COLUMNS>(values, places, lists.counts[map], image + y * row_step, pixel, row_step,
                                   column_step, sum + y * COLUMNS * LANES);
}

/// Vectors for a row of a patch of the first convolution.
template <int K, int C>
constexpr int ROW_VECTORS = (K * C + LANES - 1) / LANES;

/// The first convolution's: sums are (map, row, a row's vectors). The last vector of a row goes beyond the
/// patch; what it adds up there is never looked at.
template <int K, int C>
FADEWISE_APART void first_weight_gradient(const Lists& lists, int maps, const float* image, int image_width,
                                          float* sums) {
    constexpr int COLUMNS = ROW_VECTORS<K, C>;
    for (int map = 0; map < maps; ++map)
        add_patch_rows<K, COLUMNS>(lists, map, image, C, image_width * C, LANES, sums + map * K * COLUMNS * LANES);
}

/// The second convolution's: sums are (vector of input maps, map, tap).
template <int K>
FADEWISE_APART void second_weight_gradient(const Lists& lists, int maps, const float* image, int image_width,
                                           int lanes, float* sums) {
    for (int i = 0; i < lanes; i += LANES) {
        for (int map = 0; map < maps; ++map, sums += K * K * LANES)
            add_patch_rows<K, K>(lists, map, image + i, lanes, static_cast<ptrdiff_t>(image_width) * lanes, lanes,
                                 sums);
    }
}

}  // namespace fadewise::FADEWISE_TARGET
