// What the kernel of every instruction set offers, and what all of them are told.
#pragma once

#include <cstdint>

namespace fadewise {

/// A member of the family, and how many samples a step takes at most.
struct Shape {
    int32_t height, width, channels, kernel, maps1, maps2, hidden, classes, batch;
};

/// Samples as the data set has them: uint8 (sample, height, width, channel), and how they are normalised:
/// (pixel - mean)·scale for each channel.
struct Samples {
    const uint8_t* images;
    const int32_t* labels;
    const float* mean;
    const float* scale;
};

/// A network of some shape and all the memory that it needs.
/// Its destructor is defined in one place only: what is inline here would be compiled for every instruction
/// set, and the linker would keep any one of them.
class Network {
  public:
    virtual ~Network();

    /// Takes `steps` steps of SGD, each on `batch` of the rows, and writes each one's mean loss.
    virtual void train(float* parameters, const Samples& samples, const int64_t* rows, int64_t steps, int batch,
                       float step_size, float* losses) = 0;

    /// Writes each sample's loss, and says how many are classified right.
    virtual int64_t evaluate(const float* parameters, const Samples& samples, const int64_t* rows, int64_t count,
                             double* losses) = 0;
};

}  // namespace fadewise
