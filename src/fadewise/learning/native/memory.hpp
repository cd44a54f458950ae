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

// The address sanitizer takes one piece of memory for one array, so it is told where the arrays in it end.
#ifdef __has_feature  // Clang's way to say that it is there
#if __has_feature(address_sanitizer)
#define FADEWISE_ADDRESS_SANITIZER
#endif
#endif
#if defined(FADEWISE_ADDRESS_SANITIZER) || defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, size)
#define ASAN_UNPOISON_MEMORY_REGION(from, size)
#endif

namespace fadewise::FADEWISE_TARGET {

class Memory {
  public:
    Memory() = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() {
        ASAN_UNPOISON_MEMORY_REGION(base_, used_);
        free(base_);
    }

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
        ASAN_POISON_MEMORY_REGION(base_, used_);
        used_ = 0;
        lay_out(*this);
        return true;
    }

    /// The next `count` numbers, on a cache line of their own.
    template <class T>
    void take(T*& array, size_t count) {
        array = nullptr;
        if (base_ != nullptr) {
            array = reinterpret_cast<T*>(base_ + used_);
            ASAN_UNPOISON_MEMORY_REGION(array, count * sizeof(T));
        }
        // A line more each time: arrays whose sizes are powers of two would crowd into the same cache sets.
        used_ += (count * sizeof(T) + LINE - 1) / LINE * LINE + LINE;
    }

  private:
    static constexpr size_t HUGE_PAGE = 2 << 20, LINE = 64;
    char* base_ = nullptr;
    size_t used_ = 0;
};

}  // namespace fadewise::FADEWISE_TARGET
