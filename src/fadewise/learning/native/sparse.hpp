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
/// adds each map's sum to `bias`. `windows` is a whole number of vectors.
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

/// Lists a gradient that lies as (map, window), and adds each map's sum to `bias`. A map's places are
/// `place_row` apart.
FADEWISE_APART void list_by_map(const float* gradient, const int32_t* places, int windows, int place_row, int maps,
                                float* bias, const Lists& lists) {
    for (int map = 0; map < maps; ++map, gradient += windows, places += place_row) {
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

/// sum[row][column] += Σ over the list of value·(vector `column` of image row `row`, counted from the place).
/// A pixel of the image takes PIXEL numbers. SETS sums take turns where one alone would wait for its own
/// last multiply-add.
template <int ROWS, int COLUMNS, int PIXEL>
FADEWISE_APART void add_patches(const float* values, const int32_t* places, int count, const float* image,
                                ptrdiff_t row_step, float* sum) {
    constexpr int SETS = ROWS * COLUMNS < 8 && 2 * ROWS * COLUMNS <= MOST_SUMS ? 2 : 1;
    Vector total[SETS][ROWS][COLUMNS] = {};
    FADEWISE_UNROLL
    for (int i = 0; i < ROWS * COLUMNS; ++i) total[0][i / COLUMNS][i % COLUMNS] = load(sum + i * LANES);
    const auto add = [&](int entry, Vector(&to)[ROWS][COLUMNS]) __attribute__((always_inline)) {
        const Vector value = spread(values[entry]);
        const float* patch = image + static_cast<ptrdiff_t>(places[entry]) * PIXEL;
        FADEWISE_UNROLL
        for (int x = 0; x < COLUMNS; ++x) {
            FADEWISE_UNROLL
            for (int y = 0; y < ROWS; ++y) to[y][x] += value * load(patch + y * row_step + x * LANES);
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

/// A map's patches of K rows of COLUMNS vectors, as many rows at once as the registers hold.
template <int K, int COLUMNS, int PIXEL>
FADEWISE_INLINE void add_patch_rows(const Lists& lists, int map, const float* image, ptrdiff_t row_step, float* sum) {
    constexpr int AT_ONCE = MOST_SUMS / COLUMNS < K ? MOST_SUMS / COLUMNS : K, REST = K % AT_ONCE;
    const float* values = lists.values + static_cast<ptrdiff_t>(map) * lists.capacity;
    const int32_t* places = lists.places + static_cast<ptrdiff_t>(map) * lists.capacity;
    const int count = lists.counts[map];
    int y = 0;
    for (; y + AT_ONCE <= K; y += AT_ONCE)
        add_patches<AT_ONCE, COLUMNS, PIXEL>(values, places, count, image + y * row_step, row_step,
                                             sum + y * COLUMNS * LANES);
    if constexpr (REST > 0)
        add_patches<REST, COLUMNS, PIXEL>(values, places, count, image + y * row_step, row_step,
                                          sum + y * COLUMNS * LANES);
}

// ---- The first convolution's. Rows of its patches are short and begin anywhere, so that most loads would
// fetch two cache lines for a few numbers. So the image is copied into records first, one a pixel, each on a line
// of its own: as many rows of the patch that begins there as a vector holds, or one row in as many
// vectors as it takes.

template <int K, int C>
struct Record {
    static constexpr int ROW = K * C;
    static constexpr int ROWS = LANES >= K * ROW ? K : LANES >= ROW ? LANES / ROW : 1;
    static constexpr int VECTORS = (ROW + LANES - 1) / LANES;
    static constexpr int SIZE = VECTORS * LANES;
    static constexpr int A_PATCH = (K + ROWS - 1) / ROWS;
    static constexpr int SUMS = A_PATCH * SIZE;
    static constexpr int MORE_ROWS = (A_PATCH - 1) * ROWS;  // where only later parts of patches begin

    /// Where in a map's sums row y of the patch begins.
    static constexpr int row_at(int y) { return y / ROWS * SIZE + y % ROWS * ROW; }
};

/// Windows whose records are used while they are in the first-level cache.
constexpr int WINDOWS_AT_ONCE = 64;

/// A record for each pixel where one of a patch's can begin, `width` in a row. Reads up to R::ROWS rows
/// beyond the padded image, and writes up to a record beyond the last.
template <int K, int C>
FADEWISE_APART void copy_records(const float* image, int height, int width, float* records) {
    using R = Record<K, C>;
    const int row = (width + K - 1) * C;
    for (int y = 0; y < height + R::MORE_ROWS; ++y) {
        for (int x = 0; x < width; ++x, records += R::SIZE) {
            const float* from = image + y * row + x * C;
            // What a row writes too much, the next row overwrites, or nobody looks at.
            FADEWISE_UNROLL
            for (int i = 0; i < R::ROWS * R::VECTORS; ++i) {
                const int r = i / R::VECTORS, v = i % R::VECTORS;
                store(records + r * R::ROW + v * LANES, load(from + r * row + v * LANES));
            }
        }
    }
}

/// Sums are (map, row of records, a record's numbers).
template <int K, int C>
FADEWISE_APART void first_weight_gradient(const Lists& lists, int maps, const float* records, int width, float* sums) {
    using R = Record<K, C>;
    const ptrdiff_t row = static_cast<ptrdiff_t>(width) * R::ROWS * R::SIZE;
    for (int map = 0; map < maps; ++map)
        add_patch_rows<R::A_PATCH, R::VECTORS, R::SIZE>(lists, map, records, row, sums + map * R::SUMS);
}

/// The second convolution's: sums are (vector of input maps, map, tap).
template <int K>
FADEWISE_APART void second_weight_gradient(const Lists& lists, int maps, const float* image, int plane, int width,
                                           int lanes, float* sums) {
    for (int i = 0; i < lanes; i += LANES, image += plane) {
        for (int map = 0; map < maps; ++map, sums += K * K * LANES)
            add_patch_rows<K, K, LANES>(lists, map, image, static_cast<ptrdiff_t>(width) * LANES, sums);
    }
}

}  // namespace fadewise::FADEWISE_TARGET
