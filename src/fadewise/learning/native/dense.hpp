// A dense layer, y = W·x + b, for a whole minibatch.
//
// Forward, the lanes of a vector are samples: x and y lie "by lane", (PANEL samples) × feature × sample, and
// each number of W is spread over them. Backward, the lanes are input features: x and the gradients lie in
// panels, a row a sample. W has one layout that serves all three products, panels whose rows are outputs,
// and into which PyTorch's W goes by copying stretches, without being transposed.
//
// W of the first dense layer is most of the model and does not fit the second-level cache. So backward takes
// one panel at a time: its gradient with respect to x first, then its own, which is subtracted from it as it
// comes out of the registers. W is read once and written once, and its gradient never exists in memory.
#pragma once

#include "product.hpp"

namespace fadewise::FADEWISE_TARGET {

struct Dense {
    int in, out;
    float* weights;  // panels: a row an output, a column an input
    float* bias;
};

/// Input features that are added up before a sum goes back to memory.
constexpr int DEPTH = 2 * PANEL;

FADEWISE_APART void dense_forward(const Dense& layer, const float* x, float* y, int batch) {
    const int in_rows = rounded_up(layer.in, LANES), out_rows = rounded_up(layer.out, LANES);
    for (int first = 0; first < batch; first += PANEL) {
        float* outputs = y + static_cast<ptrdiff_t>(first) * out_rows;
        for (int o = 0; o < layer.out; ++o) {
            const Vector bias = spread(layer.bias[o]);
            store(outputs + o * PANEL, bias);
            store(outputs + o * PANEL + LANES, bias);
        }
    }
    const ptrdiff_t panel = static_cast<ptrdiff_t>(layer.out) * PANEL;
    for (int i = 0; i < layer.in; i += DEPTH) {
        const int depth = layer.in - i < DEPTH ? layer.in - i : DEPTH;
        const float* weights = layer.weights + i / PANEL * panel;
        in_equal_parts<MOST_ROWS>(layer.out, [&](int o, int rows) {
            for (int first = 0; first < batch; first += PANEL)
                product(weights + o * PANEL, panel, x + static_cast<ptrdiff_t>(first) * in_rows + i * PANEL, rows,
                        batch - first, depth, y + static_cast<ptrdiff_t>(first) * out_rows + o * PANEL, true);
        });
    }
}

/// Writes the gradient with respect to x, and takes a step along that of W and b.
/// Panels of x and of gradients have `sample_rows` rows, of which `batch` are filled.
FADEWISE_APART void dense_backward(const Dense& layer, const float* x, const float* dy, float* dx, int sample_rows,
                                   int batch, float step_size) {
    const ptrdiff_t panel = static_cast<ptrdiff_t>(sample_rows) * PANEL;
    for (int i = 0; i < layer.in; i += PANEL) {
        float* weights = layer.weights + static_cast<ptrdiff_t>(i) * layer.out;
        const ptrdiff_t samples = static_cast<ptrdiff_t>(i) * sample_rows;
        const int columns = layer.in - i;
        product(dy, panel, weights, batch, columns, layer.out, dx + samples, false);
        for (int o = 0; o < layer.out; o += PANEL) {
            const int rows = layer.out - o < PANEL ? layer.out - o : PANEL;
            descent(dy + static_cast<ptrdiff_t>(o) * sample_rows, x + samples, rows, columns, batch, step_size,
                    weights + o * PANEL);
        }
    }
    for (int o = 0; o < layer.out; o += LANES) {
        Vector total{};
        for (int b = 0; b < batch; ++b) total += load(dy + panel_at(o, sample_rows) + b * PANEL);
        store(layer.bias + o, load(layer.bias + o) - step_size * total);
    }
}

/// From (PANEL samples) × feature × sample to panels with a row a sample.
FADEWISE_APART void lanes_to_rows(const float* by_lane, int features, int sample_rows, float* rows) {
    const int feature_rows = rounded_up(features, LANES);
    for (int sample = 0; sample < sample_rows; sample += LANES) {
        for (int feature = 0; feature < features; feature += LANES) {
            Vector square[LANES];
            const float* from = by_lane + panel_at(sample, feature_rows) + feature * PANEL;
            float* to = rows + panel_at(feature, sample_rows) + sample * PANEL;
            for (int i = 0; i < LANES; ++i) square[i] = load(from + i * PANEL);
            transpose(square);
            for (int i = 0; i < LANES; ++i) store(to + i * PANEL, square[i]);
        }
    }
}

/// And back.
FADEWISE_APART void rows_to_lanes(const float* rows, int features, int sample_rows, float* by_lane) {
    const int feature_rows = rounded_up(features, LANES);
    for (int feature = 0; feature < features; feature += LANES) {
        for (int sample = 0; sample < sample_rows; sample += LANES) {
            Vector square[LANES];
            const float* from = rows + panel_at(feature, sample_rows) + sample * PANEL;
            float* to = by_lane + panel_at(sample, feature_rows) + feature * PANEL;
            for (int i = 0; i < LANES; ++i) square[i] = load(from + i * PANEL);
            transpose(square);
            for (int i = 0; i < LANES; ++i) store(to + i * PANEL, square[i]);
        }
    }
}

}  // namespace fadewise::FADEWISE_TARGET
