// XXH64 as Spark SQL's xxhash64 uses it: the seed of a value is the hash of the values before it.
//
// Source: Y. Collet, "xxHash fast digest algorithm", https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md;
// the 4- and 8-byte forms are the same function of a little-endian integer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are loaded in the byte order that the hash defines");

namespace xpsql::xxh64 {

constexpr uint64_t prime1 = 0x9E3779B185EBCA87u;
constexpr uint64_t prime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr uint64_t prime3 = 0x165667B19E3779F9u;
constexpr uint64_t prime4 = 0x85EBCA77C2B2AE63u;
constexpr uint64_t prime5 = 0x27D4EB2F165667C5u;

inline uint64_t rotate(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

template <class Word>
inline Word load(const uint8_t* at) {
    Word word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

inline uint64_t round(uint64_t lane, uint64_t word) { return rotate(lane + word * prime2, 31) * prime1; }

inline uint64_t absorb8(uint64_t hash, uint64_t word) { return rotate(hash ^ round(0, word), 27) * prime1 + prime4; }

inline uint64_t absorb4(uint64_t hash, uint32_t word) { return rotate(hash ^ (word * prime1), 23) * prime2 + prime3; }

inline uint64_t absorb1(uint64_t hash, uint8_t byte) { return rotate(hash ^ (byte * prime5), 11) * prime1; }

inline uint64_t avalanche(uint64_t hash) {
    hash = (hash ^ (hash >> 33)) * prime2;
    hash = (hash ^ (hash >> 29)) * prime3;
    return hash ^ (hash >> 32);
}

inline uint64_t hash_int32(uint32_t value, uint64_t seed) { return avalanche(absorb4(seed + prime5 + 4, value)); }

inline uint64_t hash_int64(uint64_t value, uint64_t seed) { return avalanche(absorb8(seed + prime5 + 8, value)); }

inline uint64_t merge(uint64_t hash, uint64_t lane) { return (hash ^ round(0, lane)) * prime1 + prime4; }

// Consumes the 32-byte stripes of `data` and leaves `data` at the first byte after them.
inline uint64_t stripes(const uint8_t*& data, const uint8_t* end, uint64_t seed) {
    uint64_t a = seed + prime1 + prime2, b = seed + prime2, c = seed, d = seed - prime1;
    for (; end - data >= 32; data += 32) {
        a = round(a, load<uint64_t>(data));
        b = round(b, load<uint64_t>(data + 8));
        c = round(c, load<uint64_t>(data + 16));
        d = round(d, load<uint64_t>(data + 24));
    }
    const uint64_t hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    return merge(merge(merge(merge(hash, a), b), c), d);
}

inline uint64_t hash_bytes(const uint8_t* data, size_t size, uint64_t seed) {
    const uint8_t* end = data + size;
    uint64_t hash = (size >= 32 ? stripes(data, end, seed) : seed + prime5) + size;
    for (; end - data >= 8; data += 8) hash = absorb8(hash, load<uint64_t>(data));
    if (end - data >= 4) {
        hash = absorb4(hash, load<uint32_t>(data));
        data += 4;
    }
    for (; data < end; ++data) hash = absorb1(hash, *data);
    return avalanche(hash);
}

}  // namespace xpsql::xxh64
