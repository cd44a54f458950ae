// The network: conv K×K, pool, ReLU, conv K×K, pool, ReLU, dense, ReLU, dense, and a step of SGD.
//
// Parameters lie as the products want them while training, and as PyTorch has them outside:
//
//     conv1.weight    (map, channel, row, column)         here (map, row, column, channel)
//     conv2.weight    (map, input map, row, column)       here (map, row, column, input map)
//     dense1.weight   (output, map·row·column)            here panels, see dense.hpp
//     dense2.weight   (output, input)                     here panels
//
// Maps are padded to whole vectors with maps whose weights and biases are 0; their outputs are 0, and so
// are their gradients.
#pragma once

#include "convolution.hpp"
#include "dense.hpp"
#include "interface.hpp"
#include "loss.hpp"
#include "memory.hpp"
#include "sparse.hpp"

namespace fadewise::FADEWISE_TARGET {

template <int K, int C>
class Net final : public Network {
  public:
    explicit Net(const Shape& shape)
        : maps1_(shape.maps1),
          maps2_(shape.maps2),
          hidden_(shape.hidden),
          classes_(shape.classes),
          batch_(shape.batch),
          height_(shape.height),
          width_(shape.width) {}

    bool allocate() {
        return memory_.allocate([this](Memory& memory) { lay_out(memory); });
    }

    void train(float* parameters, const Samples& samples, const int64_t* rows, int64_t steps, int batch,
               float step_size, float* losses) override {
        read(parameters);
        prepare_normalisation(samples);
        for (int64_t step = 0; step < steps; ++step, rows += batch) {
            gather(samples, rows, batch);
            transform_weights();
            for (int b = 0; b < batch; ++b) forward_image(b);
            forward_dense(batch);
            softmax_cross_entropy(logits_by_lane_, classes_, labels_, batch, sample_losses_);
            double sum = 0;
            for (int b = 0; b < batch; ++b) sum += sample_losses_[b];
            losses[step] = static_cast<float>(sum / batch);
            backward_dense(batch, step_size);
            clear_gradients();
            for (int b = 0; b < batch; ++b) backward_image(b);
            descend(step_size);
        }
        write(parameters);
    }

    int64_t evaluate(const float* parameters, const Samples& samples, const int64_t* rows, int64_t count,
                     double* losses) override {
        read(parameters);
        prepare_normalisation(samples);
        transform_weights();
        int64_t correct = 0;
        for (int64_t first = 0; first < count; first += batch_) {
            const int batch = count - first < batch_ ? static_cast<int>(count - first) : batch_;
            gather(samples, rows + first, batch);
            for (int b = 0; b < batch; ++b) forward_image(b);
            forward_dense(batch);
            for (int b = 0; b < batch; ++b) correct += predicted(logits_by_lane_, classes_, b) == labels_[b];
            softmax_cross_entropy(logits_by_lane_, classes_, labels_, batch, losses + first);
        }
        return correct;
    }

  private:
    static constexpr int TAPS = K * K, POINTS = (K + 1) * (K + 1), BORDER = K / 2;
    static constexpr int ROW = K * C, PATCH = K * ROW;
    using PatchRecord = Record<K, C>;

    /// What a sample leaves behind on its way forward, for its way back.
    struct Image {
        float* pixels;      // with a border of zeros
        float* pooled1;     // the first layer's output in planes, each with a border of zeros
        int16_t* place1;    // (window, map)
        int32_t* place2;    // (map, window), windows padded to whole vectors
    };

    const int maps1_, maps2_, hidden_, classes_, batch_, height_, width_;
    const int lanes1_ = rounded_up(maps1_, LANES), lanes2_ = rounded_up(maps2_, LANES);
    const int half_height_ = height_ / 2, half_width_ = width_ / 2;
    const int quarter_height_ = height_ / 4, quarter_width_ = width_ / 4;
    const int image_height_ = height_ + K - 1, image_width_ = width_ + K - 1;
    const int pooled_height_ = half_height_ + K - 1, pooled_width_ = half_width_ + K - 1;
    const int point_width_ = rounded_up(width_ * C, LANES);
    const int plane_ = pooled_height_ * pooled_width_ * LANES;
    const int windows1_ = half_height_ * half_width_, windows2_ = quarter_height_ * quarter_width_;
    const int window_lanes2_ = rounded_up(windows2_, LANES);
    const int features_ = maps2_ * windows2_, sample_rows_ = rounded_up(batch_, LANES);
    Memory memory_;

    // Parameters.
    float *first_weights_, *first_bias_, *second_weights_, *second_bias_;
    Dense dense1_{}, dense2_{};
    // Derived from them in each step.
    float *first_filters_, *first_doubts_, *filters_, *turned_filters_, *turned_weights_, *second_doubts_;
    // Samples.
    float *mean_row_, *scale_row_, *all_pixels_, *all_pooled1_;
    float largest_pixel_ = 0;
    int16_t* all_place1_;
    int32_t *all_place2_, *labels_;
    double* sample_losses_;
    // In between, forward.
    float *row_points_, *columns_, *point_inputs_, *point_products_, *pooled2_, *pooled2_by_map_, *row_;
    int32_t* pooled2_place_;
    float *features_by_row_, *features_by_lane_, *hidden_by_row_, *hidden_by_lane_, *logits_by_lane_;
    // In between, backward.
    float *logits_gradient_, *hidden_gradient_, *features_gradient_, *second_gradient_, *first_gradient_;
    float *records_, *first_sums_, *second_sums_, *first_bias_sums_, *second_bias_sums_;
    int32_t* window_starts_;
    Lists lists1_{}, lists2_{};

    size_t pixels() const {
        return static_cast<size_t>(image_height_ + PatchRecord::ROWS) * image_width_ * C + 2 * LANES;
    }
    size_t pooled1() const { return static_cast<size_t>(plane_) * (lanes1_ / LANES); }
    size_t place1() const { return static_cast<size_t>(rounded_up(windows1_, LANES)) * lanes1_; }
    size_t place2() const { return static_cast<size_t>(lanes2_) * window_lanes2_; }

    Image image(int b) const {
        return {all_pixels_ + b * pixels(), all_pooled1_ + b * pooled1(), all_place1_ + b * place1(),
                all_place2_ + b * place2()};
    }

    void lay_out(Memory& memory) {
        const size_t panels1 = rounded_up(lanes1_, PANEL), panels2 = rounded_up(lanes2_, PANEL);
        memory.take(first_weights_, static_cast<size_t>(maps1_) * PATCH);
        memory.take(first_bias_, lanes1_);
        memory.take(second_weights_, static_cast<size_t>(lanes2_) * TAPS * lanes1_);
        memory.take(second_bias_, lanes2_);
        lay_out_dense(memory, dense1_, features_, hidden_);
        lay_out_dense(memory, dense2_, hidden_, classes_);

        memory.take(first_filters_, static_cast<size_t>(K * C * (K + 1)) * panels1);
        memory.take(first_doubts_, lanes1_);
        memory.take(filters_, POINTS * maps1_ * panels2);
        memory.take(turned_filters_, POINTS * maps2_ * panels1);
        memory.take(turned_weights_, static_cast<size_t>(lanes1_) * TAPS * lanes2_);
        memory.take(second_doubts_, lanes2_);

        const size_t batch = batch_;
        memory.take(mean_row_, static_cast<size_t>(width_) * C);
        memory.take(scale_row_, static_cast<size_t>(width_) * C);
        memory.take(all_pixels_, batch * pixels());
        memory.take(all_pooled1_, batch * pooled1());
        memory.take(all_place1_, batch * place1());
        memory.take(all_place2_, batch * place2());
        memory.take(labels_, batch);
        memory.take(sample_losses_, batch);

        const int most_lanes = lanes1_ > lanes2_ ? lanes1_ : lanes2_;
        const int tiles = tile_rows_at_once(quarter_width_) * quarter_width_;
        const ptrdiff_t point = point_stride(most_lanes, tiles);
        memory.take(row_points_, static_cast<size_t>(image_height_) * (K + 1) * point_width_);
        memory.take(columns_, static_cast<size_t>(K + 1) * pooled_width_ * most_lanes * tile_rows_at_once(quarter_width_));
        memory.take(point_inputs_, (K + 1) * point);
        memory.take(point_products_, POINTS * point);
        memory.take(pooled2_, place2());
        memory.take(pooled2_by_map_, place2());
        memory.take(pooled2_place_, place2());
        memory.take(row_, static_cast<size_t>(features_) + LANES);

        const size_t samples = sample_rows_, sample_panels = rounded_up(batch_, PANEL);
        memory.take(features_by_row_, samples * rounded_up(features_, PANEL));
        memory.take(features_by_lane_, sample_panels * rounded_up(features_, LANES));
        memory.take(hidden_by_row_, samples * rounded_up(hidden_, PANEL));
        memory.take(hidden_by_lane_, sample_panels * rounded_up(hidden_, LANES));
        memory.take(logits_by_lane_, sample_panels * rounded_up(classes_, LANES));

        memory.take(logits_gradient_, samples * rounded_up(classes_, PANEL));
        memory.take(hidden_gradient_, samples * rounded_up(hidden_, PANEL));
        memory.take(features_gradient_, samples * rounded_up(features_, PANEL));
        memory.take(second_gradient_, static_cast<size_t>(plane_) * (lanes2_ / LANES));
        memory.take(first_gradient_, place1());
        memory.take(records_, static_cast<size_t>(height_ + PatchRecord::MORE_ROWS + 1) * width_ * PatchRecord::SIZE);
        memory.take(first_sums_, static_cast<size_t>(maps1_) * PatchRecord::SUMS);
        memory.take(second_sums_, static_cast<size_t>(maps2_) * TAPS * lanes1_);
        memory.take(first_bias_sums_, lanes1_);
        memory.take(second_bias_sums_, lanes2_);
        memory.take(window_starts_, rounded_up(windows1_, LANES));
        lay_out_lists(memory, lists1_, lanes1_, WINDOWS_AT_ONCE);
        lay_out_lists(memory, lists2_, lanes2_, windows2_);
        if (window_starts_ != nullptr) {
            for (int window = 0; window < windows1_; ++window)
                window_starts_[window] = 2 * (window / half_width_) * width_ + 2 * (window % half_width_);
        }
    }

    static void lay_out_dense(Memory& memory, Dense& layer, int in, int out) {
        layer.in = in;
        layer.out = out;
        memory.take(layer.weights, static_cast<size_t>(rounded_up(in, PANEL)) * out);
        memory.take(layer.bias, rounded_up(out, LANES));
    }

    static void lay_out_lists(Memory& memory, Lists& lists, int maps, int windows) {
        lists.capacity = rounded_up(windows, LANES) + LANES;
        memory.take(lists.values, static_cast<size_t>(maps) * lists.capacity);
        memory.take(lists.places, static_cast<size_t>(maps) * lists.capacity);
        memory.take(lists.counts, maps);
    }

    // ---- Parameters, in and out.

    /// Calls one(here, outside) for each number of the convolutions' weights, stretch(here, outside, count) for
    /// all others.
    template <class One, class Stretch>
    void each_parameter(One one, Stretch stretch) {
        ptrdiff_t at = 0;
        for (int map = 0; map < maps1_; ++map)
            for (int c = 0; c < C; ++c)
                for (int tap = 0; tap < TAPS; ++tap) one(first_weights_[map * PATCH + tap * C + c], at++);
        stretch(first_bias_, at, maps1_);
        at += maps1_;
        for (int map = 0; map < maps2_; ++map)
            for (int in = 0; in < maps1_; ++in)
                for (int tap = 0; tap < TAPS; ++tap) one(second_weights_[(map * TAPS + tap) * lanes1_ + in], at++);
        stretch(second_bias_, at, maps2_);
        at += maps2_;
        for (const Dense& layer : {dense1_, dense2_}) {
            for (int o = 0; o < layer.out; ++o)
                for (int i = 0; i < layer.in; i += PANEL)
                    stretch(layer.weights + panel_at(i, layer.out) + o * PANEL,
                            at + static_cast<ptrdiff_t>(o) * layer.in + i, layer.in - i < PANEL ? layer.in - i : PANEL);
            at += static_cast<ptrdiff_t>(layer.in) * layer.out;
            stretch(layer.bias, at, layer.out);
            at += layer.out;
        }
    }

    void read(const float* parameters) {
        each_parameter([=](float& here, ptrdiff_t at) { here = parameters[at]; },
                       [=](float* here, ptrdiff_t at, int count) {
                           memcpy(here, parameters + at, count * sizeof(float));
                       });
    }

    void write(float* parameters) {
        each_parameter([=](const float& here, ptrdiff_t at) { parameters[at] = here; },
                       [=](const float* here, ptrdiff_t at, int count) {
                           memcpy(parameters + at, here, count * sizeof(float));
                       });
    }

    void transform_weights() {
        find_doubts(first_weights_, maps1_, PATCH, largest_pixel_, first_doubts_);
        find_doubts(second_weights_, maps2_, TAPS * lanes1_, 1, second_doubts_);
        transform_first_filters<K, C>(first_weights_, maps1_, first_filters_);
        transform_filters<K>(second_weights_, maps1_, maps2_, turned_weights_, filters_, turned_filters_);
    }

    // ---- Samples.

    void prepare_normalisation(const Samples& samples) {
        for (int i = 0; i < width_ * C; ++i) {
            mean_row_[i] = samples.mean[i % C];
            scale_row_[i] = samples.scale[i % C];
        }
        largest_pixel_ = 0;
        for (int c = 0; c < C; ++c) {
            const float black = fabsf(samples.mean[c] * samples.scale[c]);
            const float white = fabsf((255 - samples.mean[c]) * samples.scale[c]);
            largest_pixel_ = fmaxf(largest_pixel_, fmaxf(black, white));
        }
    }

    void gather(const Samples& samples, const int64_t* rows, int batch) {
        const int row = width_ * C;
        for (int b = 0; b < batch; ++b) {
            labels_[b] = samples.labels[rows[b]];
            const uint8_t* from = samples.images + rows[b] * height_ * row;
            float* to = image(b).pixels + (BORDER * image_width_ + BORDER) * C;
            for (int y = 0; y < height_; ++y, from += row, to += image_width_ * C)
                for (int i = 0; i < row; ++i) to[i] = (static_cast<float>(from[i]) - mean_row_[i]) * scale_row_[i];
        }
    }

    // ---- Forward.

    WinogradLayer winograd_layer(int in, int out, const float* filters) const {
        return {quarter_height_, quarter_width_, pooled_width_, plane_, in, out, rounded_up(in, LANES),
                rounded_up(out, LANES), filters, columns_, point_inputs_, point_products_};
    }

    void forward_image(int b) {
        const Image here = image(b);
        const FirstLayer first{half_height_, half_width_, pooled_width_, plane_, lanes1_, first_weights_, first_filters_,
                               first_bias_, first_doubts_, row_points_, point_width_};
        const float most = first_forward<K, C>(first, here.pixels, here.pooled1, here.place1);
        const SecondPooling pooling{second_weights_, second_bias_, second_doubts_, isfinite(most) ? most : 0};
        second_forward<K>(winograd_layer(maps1_, maps2_, filters_), pooling, here.pooled1, pooled2_, pooled2_place_);
        // Dense layers count features map by map, as PyTorch flattens images.
        to_map_by_map<Vector>(pooled2_, pooled2_by_map_);
        to_map_by_map<Whole>(pooled2_place_, here.place2);
        for (int map = 0; map < maps2_; ++map)
            memcpy(row_ + map * windows2_, pooled2_by_map_ + map * window_lanes2_, windows2_ * sizeof(float));
        for (int i = 0; i < features_; i += PANEL)
            memcpy(features_by_row_ + panel_at(i, sample_rows_) + b * PANEL, row_ + i,
                   (features_ - i < PANEL ? features_ - i : PANEL) * sizeof(float));
    }

    /// From (window, map) to (map, window).
    template <class T, class Number>
    void to_map_by_map(const Number* from, Number* to) const {
        for (int map = 0; map < lanes2_; map += LANES) {
            for (int window = 0; window < window_lanes2_; window += LANES) {
                T square[LANES];
                for (int i = 0; i < LANES; ++i) square[i] = load(from + (window + i) * lanes2_ + map);
                transpose(square);
                for (int i = 0; i < LANES; ++i) store(to + (map + i) * window_lanes2_ + window, square[i]);
            }
        }
    }

    void forward_dense(int batch) {
        rows_to_lanes(features_by_row_, features_, sample_rows_, features_by_lane_);
        dense_forward(dense1_, features_by_lane_, hidden_by_lane_, batch);
        const int rows = rounded_up(hidden_, LANES);
        for (int i = 0; i < rounded_up(batch, PANEL) * rows; i += LANES)
            store(hidden_by_lane_ + i, relu(load(hidden_by_lane_ + i)));
        dense_forward(dense2_, hidden_by_lane_, logits_by_lane_, batch);
    }

    // ---- Backward.

    void backward_dense(int batch, float step_size) {
        lanes_to_rows(logits_by_lane_, classes_, sample_rows_, logits_gradient_);
        lanes_to_rows(hidden_by_lane_, hidden_, sample_rows_, hidden_by_row_);
        dense_backward(dense2_, hidden_by_row_, logits_gradient_, hidden_gradient_, sample_rows_, batch, step_size);
        for (int i = 0; i < rounded_up(hidden_, PANEL) * sample_rows_; i += LANES) {
            const Whole stopped = load(hidden_by_row_ + i) <= Vector{};
            store(hidden_gradient_ + i, stopped ? Vector{} : load(hidden_gradient_ + i));
        }
        dense_backward(dense1_, features_by_row_, hidden_gradient_, features_gradient_, sample_rows_, batch, step_size);
    }

    void clear_gradients() {
        memset(first_sums_, 0, static_cast<size_t>(maps1_) * PatchRecord::SUMS * sizeof(float));
        memset(second_sums_, 0, static_cast<size_t>(maps2_) * TAPS * lanes1_ * sizeof(float));
        memset(first_bias_sums_, 0, lanes1_ * sizeof(float));
        memset(second_bias_sums_, 0, lanes2_ * sizeof(float));
    }

    void backward_image(int b) {
        const Image here = image(b);
        for (int i = 0; i < features_; i += PANEL)
            memcpy(row_ + i, features_gradient_ + panel_at(i, sample_rows_) + b * PANEL,
                   (features_ - i < PANEL ? features_ - i : PANEL) * sizeof(float));
        list_by_map(row_, here.place2, windows2_, window_lanes2_, maps2_, second_bias_sums_, lists2_);
        second_weight_gradient<K>(lists2_, maps2_, here.pooled1, plane_, pooled_width_, lanes1_, second_sums_);
        spread_second_gradient();
        second_backward<K>(winograd_layer(maps2_, maps1_, turned_filters_), second_gradient_, first_gradient_);
        copy_records<K, C>(here.pixels, height_, width_, records_);
        for (int first = 0; first < windows1_; first += WINDOWS_AT_ONCE) {
            const int rest = rounded_up(windows1_ - first, LANES);
            list_by_window(first_gradient_ + first * lanes1_, here.place1 + first * lanes1_, window_starts_ + first,
                           rest < WINDOWS_AT_ONCE ? rest : WINDOWS_AT_ONCE, lanes1_, first_bias_sums_, lists1_);
            first_weight_gradient<K, C>(lists1_, maps1_, records_, width_, first_sums_);
        }
    }

    /// From the lists to an image: zeros but for what they name.
    void spread_second_gradient() {
        memset(second_gradient_, 0, static_cast<size_t>(plane_) * (lanes2_ / LANES) * sizeof(float));
        for (int map = 0; map < maps2_; ++map) {
            const ptrdiff_t list = static_cast<ptrdiff_t>(map) * lists2_.capacity;
            float* inside = second_gradient_ + static_cast<ptrdiff_t>(map / LANES) * plane_ + map % LANES +
                            (BORDER * pooled_width_ + BORDER) * LANES;
            for (int i = 0; i < lists2_.counts[map]; ++i)
                inside[static_cast<ptrdiff_t>(lists2_.places[list + i]) * LANES] = lists2_.values[list + i];
        }
    }

    /// x ← x - step_size·g for what the dense layers have not done already.
    void descend(float step_size) {
        for (int map = 0; map < maps1_; ++map) {
            const float* sums = first_sums_ + map * PatchRecord::SUMS;
            for (int y = 0; y < K; ++y)
                for (int i = 0; i < ROW; ++i)
                    first_weights_[map * PATCH + y * ROW + i] -= step_size * sums[PatchRecord::row_at(y) + i];
        }
        const float* sums = second_sums_;
        for (int in = 0; in < lanes1_; in += LANES) {
            for (int i = 0; i < maps2_ * TAPS; ++i, sums += LANES) {
                float* weights = second_weights_ + i * lanes1_ + in;
                store(weights, load(weights) - step_size * load(sums));
            }
        }
        for (int map = 0; map < maps1_; ++map) first_bias_[map] -= step_size * first_bias_sums_[map];
        for (int map = 0; map < maps2_; ++map) second_bias_[map] -= step_size * second_bias_sums_[map];
    }
};

}  // namespace fadewise::FADEWISE_TARGET
