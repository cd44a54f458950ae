// The plain C interface, and the choice of an instruction set when the library is used, not when it is built.
#include "interface.hpp"

#include <cstring>
#include <new>

namespace fadewise {

Network::~Network() = default;

namespace portable {
Network* create(const Shape&);
int64_t multiply_adds(int64_t);
}
#ifdef __x86_64__
namespace avx2 {
Network* create(const Shape&);
int64_t multiply_adds(int64_t);
}
namespace avx512 {
Network* create(const Shape&);
int64_t multiply_adds(int64_t);
}
#endif

namespace {

struct Target {
    const char* name;
    bool (*runs_here)();
    Network* (*create)(const Shape&);
    int64_t (*multiply_adds)(int64_t);
};

/// The fastest first. A processor is asked for all that build.py lets the compiler use.
const Target TARGETS[] = {
#ifdef __x86_64__
    {"avx512",
     [] {
         return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") &&
                __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
     },
     avx512::create, avx512::multiply_adds},
    {"avx2",
     [] {
         return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
     },
     avx2::create, avx2::multiply_adds},
#endif
    {"portable", [] { return true; }, portable::create, portable::multiply_adds},
};

constexpr int TARGET_COUNT = sizeof TARGETS / sizeof *TARGETS;

bool is_between(int32_t x, int32_t least, int32_t most) { return least <= x && x <= most; }

/// The largest sizes are such that no index within what one sample has, or PANEL samples have of a dense layer,
/// exceeds 31 bits. The worst are the first dense layer's inputs: 1024·256·256 rows of 32 samples, whose last row
/// begins just below 2³¹. What spans more (a minibatch, a weight matrix) is indexed with 64 bits.
bool is_of_the_family(const Shape& shape) {
    return is_between(shape.height, 4, 1024) && is_between(shape.width, 4, 1024) && shape.height % 4 == 0 &&
           shape.width % 4 == 0 && (shape.channels == 1 || shape.channels == 3) &&
           (shape.kernel == 3 || shape.kernel == 5) && is_between(shape.maps1, 1, 1024) &&
           is_between(shape.maps2, 1, 1024) && is_between(shape.hidden, 1, 65536) &&
           is_between(shape.classes, 1, 65536) && is_between(shape.batch, 1, 4096);
}

bool are_in_range(const Shape& shape, const int32_t* labels, int64_t samples, const int64_t* rows, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        if (rows[i] < 0 || rows[i] >= samples) return false;
        if (labels[rows[i]] < 0 || labels[rows[i]] >= shape.classes) return false;
    }
    return true;
}

/// What Python holds.
struct Handle {
    Shape shape;
    Network* network;
};

}  // namespace
}  // namespace fadewise

using namespace fadewise;

#pragma GCC visibility push(default)
extern "C" {

/// The instruction sets that this machine has, the fastest first: the name of the i-th, null after the last.
const char* fadewise_target(int i) {
    for (const Target& target : TARGETS) {
        if (target.runs_here() && i-- == 0) return target.name;
    }
    return nullptr;
}

/// Null where the shape is not of the family, the machine lacks the instruction set, or there is no memory.
Handle* fadewise_create(const char* name, const Shape* shape) {
    if (!is_of_the_family(*shape)) return nullptr;
    for (int i = 0; i < TARGET_COUNT; ++i) {
        if (strcmp(TARGETS[i].name, name) != 0 || !TARGETS[i].runs_here()) continue;
        Network* network = TARGETS[i].create(*shape);
        if (network == nullptr) return nullptr;
        auto* handle = new (std::nothrow) Handle{*shape, network};
        if (handle == nullptr) delete network;
        return handle;
    }
    return nullptr;
}

void fadewise_destroy(Handle* handle) {
    if (handle == nullptr) return;
    delete handle->network;
    delete handle;
}

/// Trains in place, on steps·batch rows of the samples. 0, or -1 where a row or a label is out of range.
int fadewise_train(Handle* handle, float* parameters, const uint8_t* images, const int32_t* labels, int64_t samples,
                   const int64_t* rows, int64_t steps, int32_t batch, float step_size, const float* mean,
                   const float* scale, float* losses) {
    if (batch < 1 || batch > handle->shape.batch) return -1;
    if (!are_in_range(handle->shape, labels, samples, rows, steps * batch)) return -1;
    handle->network->train(parameters, {images, labels, mean, scale}, rows, steps, batch, step_size, losses);
    return 0;
}

/// How many of the rows are classified right, and each one's loss; -1 where a row or a label is out of range.
int64_t fadewise_evaluate(Handle* handle, const float* parameters, const uint8_t* images, const int32_t* labels,
                          int64_t samples, const int64_t* rows, int64_t count, const float* mean, const float* scale,
                          double* losses) {
    if (!are_in_range(handle->shape, labels, samples, rows, count)) return -1;
    return handle->network->evaluate(parameters, {images, labels, mean, scale}, rows, count, losses);
}

/// Multiply-adds at the pace that this instruction set allows: how many they were, -1 where the machine lacks it.
int64_t fadewise_multiply_adds(const char* name, int64_t rounds) {
    for (const Target& target : TARGETS) {
        if (strcmp(target.name, name) == 0 && target.runs_here()) return target.multiply_adds(rounds);
    }
    return -1;
}
}
#pragma GCC visibility pop
