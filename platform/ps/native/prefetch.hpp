// Asks for cache lines before they are needed, so that the misses of a batch overlap.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xpsql {

constexpr size_t cache_line = 64;

inline void prefetch(const void* at) { __builtin_prefetch(at); }

// Every line that [begin, begin + size) touches, each about once. Both are multiples of 8, so the last 8 bytes share a line.
inline void prefetch(const uint8_t* begin, size_t size) {
    for (size_t i = 0; i + 8 < size; i += cache_line) prefetch(begin + i);
    prefetch(begin + size - 1);
}

}  // namespace xpsql
