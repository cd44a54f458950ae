// All memory of a network, in one piece: allocated once, set to zero, given back at the end.
//
// The same function lays the arrays out twice: first to see how much they take, then for good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace fadewise::FADEWISE_TARGET {

class Memory {
  public:
    Memory() = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { free(base_); }

    /// Gives every array that `lay_out` takes its place; says whether there was room.
    template <class LayOut>
    bool allocate(LayOut lay_out) {
        lay_out(*this);
        const size_t size = (used_ + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        void* memory = nullptr;
        if (posix_memalign(&memory, HUGE_PAGE, size) != 0) return false;
        base_ = static_cast<char*>(memory);
#ifdef MADV_HUGEPAGE
        madvise(base_, size, MADV_HUGEPAGE);  // fewer pages to look up; without it all goes on, only slower
#endif
        memset(base_, 0, size);
        used_ = 0;
        lay_out(*this);
        return true;
    }

    /// The next `count` numbers, on a cache line of their own.
    template <class T>
    void take(T*& array, size_t count) {
        array = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
        // A line more each time: arrays whose sizes are powers of two would crowd into the same cache sets.
        used_ += (count * sizeof(T) + LINE - 1) / LINE * LINE + LINE;
    }

  private:
    static constexpr size_t HUGE_PAGE = 2 << 20, LINE = 64;
    char* base_ = nullptr;
    size_t used_ = 0;
};

}  // namespace fadewise::FADEWISE_TARGET
