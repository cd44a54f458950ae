// The kernel for one instruction set: build.py compiles this file once for each, with its own flags and
// with FADEWISE_TARGET the instruction set's name.
#include <new>

#include "network.hpp"
#include "peak.hpp"

namespace fadewise::FADEWISE_TARGET {

template <int K, int C>
static Network* created(const Shape& shape) {
    auto* net = new (std::nothrow) Net<K, C>(shape);
    if (net != nullptr && !net->allocate()) {
        delete net;
        net = nullptr;
    }
    return net;
}

/// Null where the shape is not of the family, or there is no memory.
Network* create(const Shape& shape) {
    if (shape.kernel == 5 && shape.channels == 3) return created<5, 3>(shape);
    if (shape.kernel == 5 && shape.channels == 1) return created<5, 1>(shape);
    if (shape.kernel == 3 && shape.channels == 3) return created<3, 3>(shape);
    if (shape.kernel == 3 && shape.channels == 1) return created<3, 1>(shape);
    return nullptr;
}

}  // namespace fadewise::FADEWISE_TARGET
