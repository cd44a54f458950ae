// The two convolutions, forward, and the second one's gradient with respect to its input.
//
// The input image lies as pixels of channels next to each other, with a border of zeros for the padding, so
// that one row of a K×K patch is one stretch of memory. What has maps instead of channels lies in planes: a
// vector of maps for each pixel, with a border too, then the next vector of maps for each pixel. One plane
// fits the first-level cache where all together do not.
//
// Both are Winograd's. The first has few input channels, too few to pay for transforming along two
// dimensions: it is transformed along its rows only, and the points of two rows of two outputs, a pooling
// window, are summed up in registers. The second is transformed along both, tile by tile of 2×2 outputs.
// Both end in `pooled`, and never store their output.
//
// The gradient with respect to the second one's input is the same Winograd convolution, of the gradient
// with the filters turned round.
#pragma once

#include "pooling.hpp"
#include "product.hpp"
#include "winograd.hpp"

namespace fadewise::FADEWISE_TARGET {

// ---- The first convolution.

struct FirstLayer {
    int half_height, half_width;  // of its pooled output
    int pooled_width;             // of its pooled output, borders included
    int pooled_plane;             // numbers in a plane of that
    int lanes;                    // maps, rounded up to whole vectors
    const float* weights;         // (map, row, column, channel)
    const float* filters;         // those at the points, in panels: K·C·(K+1) rows, a column a map
    const float* bias;
    const float* doubts;          // for each map, by how much its sums may be off
    float* points;                // for each row of the padded image and each point, `point_width` numbers
    int point_width;
};

/// Numbers in a row of the padded image.
template <int K, int C>
int padded_row(const FirstLayer& layer) {
    return (2 * layer.half_width + K - 1) * C;
}

/// One output by the definition.
template <int K, int C>
double first_sum(const FirstLayer& layer, const float* patch, int map) {
    const float* weights = layer.weights + map * K * K * C;
    double sum = 0;
    for (int y = 0; y < K; ++y, patch += padded_row<K, C>(layer), weights += K * C)
        for (int i = 0; i < K * C; ++i) sum += static_cast<double>(patch[i]) * weights[i];
    return sum;
}

/// An image's rows at the points, pixel by pixel: of every second pixel nobody asks, but in this way neighbours
/// are transformed together. Reads up to K·C + LANES numbers beyond a row.
template <int K, int C>
FADEWISE_APART void transform_rows(const FirstLayer& layer, const float* image) {
    constexpr int SIDE = K + 1;
    const int height = 2 * layer.half_height + K - 1, row = padded_row<K, C>(layer);
    float* to = layer.points;
    for (int y = 0; y < height; ++y, image += row, to += SIDE * layer.point_width) {
        for (int i = 0; i < layer.point_width; i += LANES) {
            Vector d[SIDE], o[SIDE];
            FADEWISE_UNROLL
            for (int x = 0; x < SIDE; ++x) d[x] = load(image + i + x * C);
            input_to_points<K>(d, o);
            FADEWISE_UNROLL
            for (int x = 0; x < SIDE; ++x) store(to + x * layer.point_width + i, o[x]);
        }
    }
}

/// A pooling window: two rows of two outputs of the image's patch. Returns the largest numbers seen so far.
template <int K, int C, int VECTORS>
FADEWISE_APART Vector first_window(const FirstLayer& layer, const float* points, const float* patch, int map, float* to,
                                   int16_t* to_place, Vector most) {
    constexpr int SIDE = K + 1;
    const int width = layer.point_width;
    const float* filter = layer.filters + panel_at(map, K * C * SIDE);
    Vector sum[2][SIDE][VECTORS] = {};
#pragma GCC unroll 1
    for (int y = 0; y < K; ++y, points += SIDE * width) {
#pragma GCC unroll 1
        for (int c = 0; c < C; ++c, filter += SIDE * PANEL) {
            FADEWISE_UNROLL
            for (int x = 0; x < SIDE; ++x) {
                Vector row[VECTORS];
                FADEWISE_UNROLL
                for (int v = 0; v < VECTORS; ++v) row[v] = load_once(filter + x * PANEL + v * LANES);
                FADEWISE_UNROLL
                for (int r = 0; r < 2; ++r) {
                    const Vector factor = spread(points[(r * SIDE + x) * width + c]);
                    FADEWISE_UNROLL
                    for (int v = 0; v < VECTORS; ++v) sum[r][x][v] += factor * row[v];
                }
            }
        }
    }
    FADEWISE_UNROLL
    for (int v = 0; v < VECTORS; ++v) {
        Vector four[2][2];
        FADEWISE_UNROLL
        for (int r = 0; r < 2; ++r) {
            Vector m[SIDE];
            FADEWISE_UNROLL
            for (int x = 0; x < SIDE; ++x) m[x] = sum[r][x][v];
            points_to_output<K>(m, four[r][0], four[r][1]);
        }
        const int first = map + v * LANES, down = 2 * layer.half_width;
        const Pooled out = pooled(four[0][0], four[0][1], four[1][0], four[1][1], load(layer.bias + first),
                                  load(layer.doubts + first), 0, down);
        float* values = to + first / LANES * layer.pooled_plane;
        store(values, out.value);
        store_short(to_place + first, out.place);
        if (any(out.close)) {
            settle(out.close, layer.bias + first, 0, down, values, to_place + first, [=, &layer](int lane, int y, int x) {
                return first_sum<K, C>(layer, patch + y * padded_row<K, C>(layer) + x * C, first + lane);
            });
        }
        most = out.value > most ? out.value : most;
    }
    return most;
}

/// Pools the convolution of an image into the inside of `to`, and returns the largest number there. Places are pixels
/// of the output, counted from their window's first.
template <int K, int C>
float first_forward(const FirstLayer& layer, const float* image, float* to, int16_t* to_place) {
    constexpr int BORDER = K / 2, SIDE = K + 1;
    // As many sums as a window has in two vectors of maps, if the registers hold them.
    constexpr int VECTORS = 4 * SIDE <= MOST_SUMS ? 2 : 1;
    transform_rows<K, C>(layer, image);
    Vector most{};
    for (int y = 0; y < layer.half_height; ++y) {
        const float* points = layer.points + 2 * y * SIDE * layer.point_width;
        const float* patch = image + 2 * y * padded_row<K, C>(layer);
        float* values = to + ((y + BORDER) * layer.pooled_width + BORDER) * LANES;
        for (int x = 0; x < layer.half_width;
             ++x, points += 2 * C, patch += 2 * C, values += LANES, to_place += layer.lanes) {
            int map = 0;
            for (; map + VECTORS * LANES <= layer.lanes; map += VECTORS * LANES)
                most = first_window<K, C, VECTORS>(layer, points, patch, map, values, to_place, most);
            if (map < layer.lanes) most = first_window<K, C, 1>(layer, points, patch, map, values, to_place, most);
        }
    }
    return largest(most);
}

/// From weights (map, row, column, channel) the filters at their points.
template <int K, int C>
FADEWISE_APART void transform_first_filters(const float* weights, int maps, float* filters) {
    constexpr int SIDE = K + 1;
    for (int map = 0; map < maps; ++map, weights += K * K * C) {
        float* to = filters + panel_at(map, K * C * SIDE);
        for (int y = 0; y < K; ++y) {
            for (int c = 0; c < C; ++c) {
                Vector taps[K], points[SIDE];
                for (int x = 0; x < K; ++x) taps[x] = spread(weights[(y * K + x) * C + c]);
                filter_to_points<K>(taps, points);
                for (int x = 0; x < SIDE; ++x, to += PANEL) *to = points[x][0];
            }
        }
    }
}

// ---- Winograd's, for the second.

struct WinogradLayer {
    int tile_rows, tile_columns;
    int padded_width;         // of the input, borders included
    int plane;                // numbers in a plane of the input
    int in, out;              // maps
    int in_lanes, out_lanes;  // maps, rounded up to whole vectors
    const float* filters;     // at each of (K+1)² points, panels: a row an input map, a column an output map
    float* columns;           // some rows of tiles, transformed along y
    float* inputs;            // at each of K+1 points, panels: a row a tile, a column an input map
    float* products;          // at each point, panels: a row a tile, a column an output map
};

/// From one point's matrix to the next. A line more than it takes: the points' same elements are written and
/// read together, and at a distance that is a power of two they would crowd into the same cache sets.
inline ptrdiff_t point_stride(int lanes, int tiles) {
    return static_cast<ptrdiff_t>(rounded_up(lanes, PANEL)) * tiles + 16;
}

inline ptrdiff_t filter_stride(const WinogradLayer& layer) {
    return static_cast<ptrdiff_t>(rounded_up(layer.out_lanes, PANEL)) * layer.in;
}

inline ptrdiff_t column_stride(const WinogradLayer& layer, int rows) {
    return static_cast<ptrdiff_t>(layer.padded_width) * layer.in_lanes * rows;
}

/// Rows of tiles that are transformed, multiplied and transformed back at once: so few that what comes in
/// between stays in the cache, so many that the filters need not be read too often.
inline int tile_rows_at_once(int tile_columns) {
    constexpr int TILES = 16;
    return tile_columns >= TILES ? 1 : TILES / tile_columns;
}

/// Some rows of tiles, transformed along y: for each point of these, a plane's rows.
template <int K>
FADEWISE_APART void transform_columns(const WinogradLayer& layer, const float* image, int first_row, int rows) {
    constexpr int SIDE = K + 1;
    const int row = layer.padded_width * LANES;
    const ptrdiff_t point = column_stride(layer, rows);
    float* to = layer.columns;
    for (int map = 0; map < layer.in_lanes; map += LANES, image += layer.plane) {
        for (int r = first_row; r < first_row + rows; ++r, to += row) {
            const float* from = image + static_cast<ptrdiff_t>(2 * r) * row;
            for (int i = 0; i < row; i += LANES) {
                Vector d[SIDE], o[SIDE];
                FADEWISE_UNROLL
                for (int y = 0; y < SIDE; ++y) d[y] = load(from + y * row + i);
                input_to_points<K>(d, o);
                FADEWISE_UNROLL
                for (int y = 0; y < SIDE; ++y) store(to + y * point + i, o[y]);
            }
        }
    }
}

/// Those of one point, transformed along x: the matrices of K+1 points.
template <int K>
FADEWISE_APART void transform_row(const WinogradLayer& layer, const float* columns, int rows) {
    constexpr int SIDE = K + 1;
    const int tiles = rows * layer.tile_columns;
    const ptrdiff_t point = point_stride(layer.in_lanes, tiles);
    for (int map = 0; map < layer.in_lanes; map += LANES) {
        float* to = layer.inputs + panel_at(map, tiles);
        for (int r = 0; r < rows; ++r, columns += layer.padded_width * LANES) {
            for (int t = 0; t < layer.tile_columns; ++t, to += PANEL) {
                Vector d[SIDE], o[SIDE];
                FADEWISE_UNROLL
                for (int x = 0; x < SIDE; ++x) d[x] = load(columns + (2 * t + x) * LANES);
                input_to_points<K>(d, o);
                FADEWISE_UNROLL
                for (int x = 0; x < SIDE; ++x) store(to + x * point, o[x]);
            }
        }
    }
}

/// The products at K+1 points, from filters on.
template <int K>
FADEWISE_APART void multiply_row(const WinogradLayer& layer, const float* filters, int tiles, float* products) {
    const ptrdiff_t in_panel = static_cast<ptrdiff_t>(tiles) * PANEL;
    const ptrdiff_t input = point_stride(layer.in_lanes, tiles), output = point_stride(layer.out_lanes, tiles);
    const ptrdiff_t filter = filter_stride(layer);
    for (int x = 0; x <= K; ++x) {
        for (int map = 0; map < layer.out_lanes; map += PANEL)
            product(layer.inputs + x * input, in_panel, filters + x * filter + panel_at(map, layer.in), tiles,
                    layer.out_lanes - map, layer.in, products + x * output + panel_at(map, tiles), false);
    }
}

/// Calls finish(tile row, tile column, map, the tile's four outputs) for each vector of maps.
template <int K, class Finish>
FADEWISE_INLINE void transform_outputs(const WinogradLayer& layer, int first_row, int rows, Finish finish) {
    constexpr int SIDE = K + 1;
    const int tiles = rows * layer.tile_columns;
    const ptrdiff_t point = point_stride(layer.out_lanes, tiles);
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
        const int tiles = rows * layer.tile_columns;
        transform_columns<K>(layer, image, first, rows);
        for (int y = 0; y <= K; ++y) {
            // Row by row of points, so that what goes into a product is still in the first-level cache.
            transform_row<K>(layer, layer.columns + y * column_stride(layer, rows), rows);
            multiply_row<K>(layer, layer.filters + y * (K + 1) * filter_stride(layer), tiles,
                            layer.products + y * (K + 1) * point_stride(layer.out_lanes, tiles));
        }
        transform_outputs<K>(layer, first, rows, finish);
    }
}

/// What the second convolution's outputs are pooled with.
struct SecondPooling {
    const float* weights;  // (map, tap, input map)
    const float* bias;
    const float* doubts;   // for each map, by how much its sums may be off if inputs are at most 1
    float most;            // the largest input
};

/// One output by the definition, of the patch that begins at a pixel of the padded image.
template <int K>
double second_sum(const WinogradLayer& layer, const float* weights, const float* image, int at, int map) {
    double sum = 0;
    for (int tap = 0; tap < K * K; ++tap) {
        const float* of_tap = weights + (map * K * K + tap) * layer.in_lanes;
        const float* pixel = image + static_cast<ptrdiff_t>(at + tap / K * layer.padded_width + tap % K) * LANES;
        for (int in = 0; in < layer.in; ++in)
            sum += static_cast<double>(pixel[in / LANES * layer.plane + in % LANES]) * of_tap[in];
    }
    return sum;
}

/// Pools the convolution of a padded image: a value and its place for each (window, map).
/// A place is where the patch that the number came from begins in the padded image, in pixels.
template <int K>
FADEWISE_APART void second_forward(const WinogradLayer& layer, const SecondPooling& pooling, const float* image,
                                   float* to, int32_t* to_place) {
    const Vector most = spread(pooling.most);
    winograd<K>(layer, image, [&](int y, int x, int map, Vector a, Vector b, Vector c, Vector d) {
        const int at = 2 * y * layer.padded_width + 2 * x, down = layer.padded_width;
        const Pooled out = pooled(a, b, c, d, load(pooling.bias + map), load(pooling.doubts + map) * most, at, down);
        const int cell = (y * layer.tile_columns + x) * layer.out_lanes + map;
        store(to + cell, out.value);
        store(to_place + cell, out.place);
        if (any(out.close)) {
            settle(out.close, pooling.bias + map, at, down, to + cell, to_place + cell,
                   [=, &layer, &pooling](int lane, int below, int right) {
                       const int corner = at + below * down + right;
                       return second_sum<K>(layer, pooling.weights, image, corner, map + lane);
                   });
        }
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
