// MurmurHash3 x86_32 as Spark's hash() has it: the bytes behind the last whole word are mixed one by one, as signed numbers.
//
// Source: A. Appleby, MurmurHash3.cpp (public domain); Spark's org.apache.spark.unsafe.hash.Murmur3_x86_32, hashUnsafeBytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace xpsql::murmur {

inline uint32_t rotated(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }

inline uint32_t mixed(uint32_t hash, uint32_t word) {
    return rotated(hash ^ rotated(word * 0xCC9E2D51u, 15) * 0x1B873593u, 13) * 5 + 0xE6546B64u;
}

inline uint32_t finished(uint32_t hash, uint32_t length) {
    hash ^= length;
    hash = (hash ^ hash >> 16) * 0x85EBCA6Bu;
    hash = (hash ^ hash >> 13) * 0xC2B2AE35u;
    return hash ^ hash >> 16;
}

inline uint64_t hash_int32(uint32_t value, uint64_t seed) { return finished(mixed(static_cast<uint32_t>(seed), value), 4); }

inline uint64_t hash_int64(uint64_t value, uint64_t seed) {
    const uint32_t low = mixed(static_cast<uint32_t>(seed), static_cast<uint32_t>(value));
    return finished(mixed(low, static_cast<uint32_t>(value >> 32)), 8);
}

inline uint64_t hash_bytes(const uint8_t* data, size_t size, uint64_t seed) {
    auto hash = static_cast<uint32_t>(seed);
    size_t at = 0;
    for (; at + 4 <= size; at += 4) {
        uint32_t word;
        std::memcpy(&word, data + at, sizeof word);
        hash = mixed(hash, word);
    }
    for (; at < size; ++at) hash = mixed(hash, static_cast<uint32_t>(static_cast<int8_t>(data[at])));
    return finished(hash, static_cast<uint32_t>(size));
}

}  // namespace xpsql::murmur
