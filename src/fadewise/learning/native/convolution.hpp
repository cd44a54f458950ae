// The two convolutions, forward, and the second one's gradient with respect to its input.
//
// Images lie as pixels of channels (or maps) next to each other, with a border of zeros for the padding, so
// that one row of a K×K patch is one stretch of memory.
//
// The first convolution has few input channels, too few to be worth transforming: it is a matrix product,
// patches times weights, whose rows are the pixels of some pooling windows. The second is Winograd's, tile
// by tile of 2×2 outputs: a pooling window each. Both end in `pooled`, and never store their output.
//
// The gradient with respect to the second one's input is the same Winograd convolution, of the gradient
// with the filters turned round.
#pragma once

#include "pooling.hpp"
#include "product.hpp"
#include "winograd.hpp"

namespace fadewise::FADEWISE_TARGET {

// ---- The first convolution, direct.

struct FirstLayer {
    int half_height, half_width;  // of its pooled output
    int image_width;              // of its input, borders included
    int pooled_width;             // of its pooled output, borders included
    int lanes;                    // maps, rounded up to whole vectors
    const float* weights;         // panels: K·K·C rows, a column a map
    const float* bias;
};

/// Pooling windows next to each other that the registers hold at once.
constexpr int MOST_WINDOWS = MOST_ROWS >= 12 ? 3 : 1;

template <int K, int C, int WINDOWS, int VECTORS>
FADEWISE_APART void first_block(const FirstLayer& layer, const float* patch, int map, float* to, int16_t* to_place) {
    const int row = layer.image_width * C;
    // Four rows of the product for a window: its four pixels.
    const auto pixel = [row](int i) { return (i / 4 * 2 + i % 2) * C + (i / 2 % 2) * row; };
    const float* weights = layer.weights + panel_at(map, K * K * C);
    Vector sum[4 * WINDOWS][VECTORS] = {};
    for (int y = 0; y < K; ++y)
        accumulate(sum, patch + y * row, pixel, 1, weights + y * K * C * PANEL, K * C);
    FADEWISE_UNROLL
    for (int v = 0; v < VECTORS; ++v) {
        const Vector bias = load(layer.bias + map + v * LANES);
        FADEWISE_UNROLL
        for (int w = 0; w < WINDOWS; ++w) {
            const Pooled out = pooled(sum[4 * w][v], sum[4 * w + 1][v], sum[4 * w + 2][v], sum[4 * w + 3][v], bias, 0,
                                      layer.image_width);
            const int at = w * layer.lanes + map + v * LANES;
            store(to + at, out.value);
            store_short(to_place + at, out.place);
        }
    }
}

/// Pools the convolution of an image into the inside of `to`; places are relative to their window's first.
template <int K, int C>
void first_forward(const FirstLayer& layer, const float* image, float* to, int16_t* to_place) {
    constexpr int BORDER = K / 2;
    for (int y = 0; y < layer.half_height; ++y) {
        const float* patches = image + 2 * y * layer.image_width * C;
        float* pooled_row = to + ((y + BORDER) * layer.pooled_width + BORDER) * layer.lanes;
        int16_t* place_row = to_place + y * layer.half_width * layer.lanes;
        in_equal_parts<MOST_WINDOWS>(layer.half_width, [&](int x, int count) {
            with_constant<MOST_WINDOWS>(count, [&](auto n) {
                const float* patch = patches + 2 * x * C;
                float* values = pooled_row + x * layer.lanes;
                int16_t* places = place_row + x * layer.lanes;
                for (int map = 0; map < layer.lanes; map += PANEL) {
                    if (layer.lanes - map > LANES) first_block<K, C, n, 2>(layer, patch, map, values, places);
                    else first_block<K, C, n, 1>(layer, patch, map, values, places);
                }
            });
        });
    }
}

// ---- Winograd's, for the second.

struct WinogradLayer {
    int tile_rows, tile_columns;
    int padded_width;         // of the input, borders included
    int in, out;              // maps
    int in_lanes, out_lanes;  // maps, rounded up to whole vectors
    const float* filters;     // at each of (K+1)² points, panels: a row an input map, a column an output map
    float* columns;           // K+1 rows of the padded input, transformed along y
    float* inputs;            // at each point, panels: a row a tile, a column an input map
    float* products;          // at each point, panels: a row a tile, a column an output map
};

/// Rows of tiles that are transformed, multiplied and transformed back at once: so few that what comes in
/// between stays in the cache, so many that the filters need not be read too often.
inline int tile_rows_at_once(int tile_columns) {
    constexpr int TILES = 16;
    return tile_columns >= TILES ? 1 : TILES / tile_columns;
}

template <int K>
FADEWISE_APART void transform_inputs(const WinogradLayer& layer, const float* image, int first_row, int rows) {
    constexpr int SIDE = K + 1;
    const int width = layer.padded_width, lanes = layer.in_lanes, row = width * lanes;
    const int tiles = rows * layer.tile_columns;
    const ptrdiff_t point = static_cast<ptrdiff_t>(rounded_up(lanes, PANEL)) * tiles;
    for (int r = 0; r < rows; ++r) {
        const float* from = image + static_cast<ptrdiff_t>(2 * (first_row + r)) * row;
        for (int i = 0; i < row; i += LANES) {
            Vector d[SIDE], o[SIDE];
            FADEWISE_UNROLL
            for (int y = 0; y < SIDE; ++y) d[y] = load(from + y * row + i);
            input_to_points<K>(d, o);
            FADEWISE_UNROLL
            for (int y = 0; y < SIDE; ++y) store(layer.columns + y * row + i, o[y]);
        }
        for (int y = 0; y < SIDE; ++y) {
            for (int map = 0; map < lanes; map += LANES) {
                const float* column = layer.columns + y * row + map;
                float* to = layer.inputs + y * SIDE * point + panel_at(map, tiles) + r * layer.tile_columns * PANEL;
                for (int t = 0; t < layer.tile_columns; ++t, column += 2 * lanes, to += PANEL) {
                    Vector d[SIDE], o[SIDE];
                    FADEWISE_UNROLL
                    for (int x = 0; x < SIDE; ++x) d[x] = load(column + x * lanes);
                    input_to_points<K>(d, o);
                    FADEWISE_UNROLL
                    for (int x = 0; x < SIDE; ++x) store(to + x * point, o[x]);
                }
            }
        }
    }
}

template <int K>
FADEWISE_APART void multiply_points(const WinogradLayer& layer, int tiles) {
    constexpr int POINTS = (K + 1) * (K + 1);
    const ptrdiff_t in_panel = static_cast<ptrdiff_t>(tiles) * PANEL;
    const ptrdiff_t input = rounded_up(layer.in_lanes, PANEL) * static_cast<ptrdiff_t>(tiles);
    const ptrdiff_t output = rounded_up(layer.out_lanes, PANEL) * static_cast<ptrdiff_t>(tiles);
    const ptrdiff_t filter = static_cast<ptrdiff_t>(rounded_up(layer.out_lanes, PANEL)) * layer.in;
    for (int p = 0; p < POINTS; ++p) {
        for (int map = 0; map < layer.out_lanes; map += PANEL)
            product(layer.inputs + p * input, in_panel, layer.filters + p * filter + panel_at(map, layer.in), tiles,
                    layer.out_lanes - map, layer.in, layer.products + p * output + panel_at(map, tiles), false);
    }
}

/// Calls finish(tile row, tile column, map, the tile's four outputs) for each vector of maps.
template <int K, class Finish>
FADEWISE_INLINE void transform_outputs(const WinogradLayer& layer, int first_row, int rows, Finish finish) {
    constexpr int SIDE = K + 1;
    const int tiles = rows * layer.tile_columns;
    const ptrdiff_t point = static_cast<ptrdiff_t>(rounded_up(layer.out_lanes, PANEL)) * tiles;
    for (int r = 0; r < rows; ++r) {
        for (int map = 0; map < layer.out_lanes; map += LANES) {
            const float* from = layer.products + panel_at(map, tiles) + r * layer.tile_columns * PANEL;
            for (int t = 0; t < layer.tile_columns; ++t, from += PANEL) {
                Vector upper[SIDE], lower[SIDE];
                FADEWISE_UNROLL
                for (int x = 0; x < SIDE; ++x) {
                    Vector m[SIDE];
                    FADEWISE_UNROLL
                    for (int y = 0; y < SIDE; ++y) m[y] = load(from + (y * SIDE + x) * point);
                    points_to_output<K>(m, upper[x], lower[x]);
                }
                Vector a, b, c, d;
                points_to_output<K>(upper, a, b);
                points_to_output<K>(lower, c, d);
                finish(first_row + r, t, map, a, b, c, d);
            }
        }
    }
}

template <int K, class Finish>
FADEWISE_INLINE void winograd(const WinogradLayer& layer, const float* image, Finish finish) {
    const int at_once = tile_rows_at_once(layer.tile_columns);
    for (int first = 0; first < layer.tile_rows; first += at_once) {
        const int rows = layer.tile_rows - first < at_once ? layer.tile_rows - first : at_once;
        transform_inputs<K>(layer, image, first, rows);
        multiply_points<K>(layer, rows * layer.tile_columns);
        transform_outputs<K>(layer, first, rows, finish);
    }
}

/// Pools the convolution of a padded image: a value and its place for each (window, map).
/// A place is where the patch that the number came from begins in the padded image, in pixels.
template <int K>
FADEWISE_APART void second_forward(const WinogradLayer& layer, const float* image, const float* bias, float* to,
                                   int32_t* to_place) {
    winograd<K>(layer, image, [&](int y, int x, int map, Vector a, Vector b, Vector c, Vector d) {
        const int at = 2 * y * layer.padded_width + 2 * x;
        const Pooled out = pooled(a, b, c, d, load(bias + map), at, layer.padded_width);
        const int cell = (y * layer.tile_columns + x) * layer.out_lanes + map;
        store(to + cell, out.value);
        store(to_place + cell, out.place);
    });
}

/// The convolution of a padded gradient, which the turned filters make that with respect to the input.
template <int K>
FADEWISE_APART void second_backward(const WinogradLayer& layer, const float* gradient, float* to) {
    const int row = 2 * layer.tile_columns * layer.out_lanes;
    winograd<K>(layer, gradient, [&](int y, int x, int map, Vector a, Vector b, Vector c, Vector d) {
        float* at = to + 2 * y * row + 2 * x * layer.out_lanes + map;
        store(at, a);
        store(at + layer.out_lanes, b);
        store(at + row, c);
        store(at + row + layer.out_lanes, d);
    });
}

/// From weights (output map, tap, input map), all of whose maps are padded with zeros to whole vectors, both
/// sets of filters at their points: `forward`, and `backward`, turned round and with in and out exchanged.
template <int K>
FADEWISE_APART void transform_filters(const float* weights, int in, int out, float* turned, float* forward,
                                      float* backward) {
    constexpr int TAPS = K * K, SIDE = K + 1;
    const int in_lanes = rounded_up(in, LANES), out_lanes = rounded_up(out, LANES);
    for (int tap = 0; tap < TAPS; ++tap) {
        for (int o = 0; o < out_lanes; o += LANES) {
            for (int i = 0; i < in_lanes; i += LANES) {
                Vector square[LANES];
                for (int r = 0; r < LANES; ++r) square[r] = load(weights + ((o + r) * TAPS + tap) * in_lanes + i);
                transpose(square);
                for (int r = 0; r < LANES; ++r) store(turned + (tap * in_lanes + i + r) * out_lanes + o, square[r]);
            }
        }
    }
    const auto write = [](const Vector(&points)[SIDE][SIDE], float* to, ptrdiff_t point) {
        FADEWISE_UNROLL
        for (int p = 0; p < SIDE * SIDE; ++p) store(to + p * point, points[p / SIDE][p % SIDE]);
    };
    for (int i = 0; i < in; ++i) {
        for (int o = 0; o < out_lanes; o += LANES) {
            Vector taps[K][K], points[SIDE][SIDE];
            for (int t = 0; t < TAPS; ++t) taps[t / K][t % K] = load(turned + (t * in_lanes + i) * out_lanes + o);
            filters_to_points<K>(taps, points);
            write(points, forward + panel_at(o, in) + i * PANEL, rounded_up(out, PANEL) * static_cast<ptrdiff_t>(in));
        }
    }
    for (int o = 0; o < out; ++o) {
        for (int i = 0; i < in_lanes; i += LANES) {
            Vector taps[K][K], points[SIDE][SIDE];
            for (int t = 0; t < TAPS; ++t) {
                const int mirrored = TAPS - 1 - t;
                taps[t / K][t % K] = load(weights + (o * TAPS + mirrored) * in_lanes + i);
            }
            filters_to_points<K>(taps, points);
            write(points, backward + panel_at(i, out) + o * PANEL, rounded_up(in, PANEL) * static_cast<ptrdiff_t>(out));
        }
    }
}

}  // namespace fadewise::FADEWISE_TARGET
