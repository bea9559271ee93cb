// The rows of a table as readers need them, in one piece of memory that may be a mapped file: whole keys, floats, no optimizer's
// state. platform/scoring/image.py has the format.
//
//     header | uint64 offsets[1025], in buckets | buckets: uint64 keys[slots], float values[slots][dim], padding to 64 bytes
//
// A key stands in its slice (its top ten bits), in the bucket that the rest of it names as a fraction of the slice, or in one of
// the next ones where that is full. A free place has the key `empty`, which no row has, and zeros.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "prefetch.hpp"

namespace xpsql {

struct ImageHeader {
    static constexpr uint64_t expected_magic = 0x474D494C51535058u;  // "XPSQLIMG"
    static constexpr uint32_t expected_format = 1;

    uint64_t magic;
    uint32_t format;
    uint32_t dim;
    uint64_t rows;
    uint64_t empty;
    uint32_t slots;
    uint32_t stride;
    uint64_t reserved[3];
};

static_assert(sizeof(ImageHeader) == 64, "buckets begin at a multiple of 64 bytes");

class Image {
  public:
    static constexpr size_t num_slices = 1024;
    static constexpr size_t block = 32;

    // Floats of a row, at most: what a file of a few bytes says of itself takes no memory.
    static constexpr uint32_t most_dim = 1u << 20;

    // The bytes before the buckets.
    static constexpr size_t head_bytes = (sizeof(ImageHeader) + (num_slices + 1) * sizeof(uint64_t) + 63) / 64 * 64;

    Image(const uint8_t* data, size_t size) {
        if (size < head_bytes) throw std::invalid_argument("it is shorter than its header");
        std::memcpy(&header_, data, sizeof header_);
        if (header_.magic != ImageHeader::expected_magic || header_.format != ImageHeader::expected_format)
            throw std::invalid_argument("it is none of this format");
        const uint64_t least = uint64_t(header_.slots) * (sizeof(uint64_t) + sizeof(float) * uint64_t(header_.dim));
        if (header_.dim == 0 || header_.slots == 0 || header_.slots > 64 || header_.dim > most_dim || header_.stride % 64 || header_.stride < least)
            throw std::invalid_argument("its header is damaged");
        offsets_ = reinterpret_cast<const uint64_t*>(data + sizeof header_);
        bool ascend = offsets_[0] == 0;
        for (size_t s = 0; s < num_slices; ++s) ascend &= offsets_[s] <= offsets_[s + 1];
        const uint64_t room = (size - head_bytes) / header_.stride;
        if (!ascend || offsets_[num_slices] != room || (size - head_bytes) % header_.stride)
            throw std::invalid_argument("its slices do not fill it");
        buckets_ = data + head_bytes;
        absent_.resize(header_.dim);
    }

    size_t dim() const { return header_.dim; }
    size_t rows() const { return header_.rows; }
    const float* absent() const { return absent_.data(); }

    // The floats of a key; zeros of a key that has none.
    const float* find(uint64_t key) const {
        const Place place = first(key);
        uint64_t at = place.bucket;
        for (uint64_t tried = 0; tried < place.count; ++tried) {
            const uint8_t* bucket = buckets_ + (place.begin + at) * header_.stride;
            const auto* keys = reinterpret_cast<const uint64_t*>(bucket);
            for (uint32_t i = 0; i < header_.slots; ++i) {
                if (keys[i] == key) return values(bucket, i);
                if (keys[i] == header_.empty) return absent();
            }
            at = at + 1 == place.count ? 0 : at + 1;
        }
        return absent();
    }

    // The same of many keys, whose buckets are asked for before they are read.
    void find(const uint64_t* keys, size_t n, const float** rows) const {
        for (size_t i = 0; i < std::min(block, n); ++i) ask(keys[i]);
        for (size_t i = 0; i < n; ++i) {
            if (i + block < n) ask(keys[i + block]);
            rows[i] = find(keys[i]);
        }
    }

    // For who writes it: the place of a new key in its slice. `data`: the memory it was made of, now writable.
    float* claim(uint8_t* data, uint64_t key) const {
        const Place place = first(key);
        uint64_t at = place.bucket;
        for (uint64_t tried = 0; tried < place.count; ++tried) {
            uint8_t* bucket = data + head_bytes + (place.begin + at) * header_.stride;
            auto* keys = reinterpret_cast<uint64_t*>(bucket);
            for (uint32_t i = 0; i < header_.slots; ++i)
                if (keys[i] == header_.empty || keys[i] == key) {
                    keys[i] = key;
                    return const_cast<float*>(values(bucket, i));
                }
            at = at + 1 == place.count ? 0 : at + 1;
        }
        throw std::invalid_argument("a slice is full");
    }

  private:
    struct Place {
        uint64_t begin, count, bucket;
    };

    Place first(uint64_t key) const {
        const uint64_t begin = offsets_[key >> 54], count = offsets_[(key >> 54) + 1] - begin;
        return {begin, count, static_cast<uint64_t>(static_cast<unsigned __int128>(key << 10) * count >> 64)};
    }

    void ask(uint64_t key) const {
        const Place place = first(key);
        if (place.count) prefetch(buckets_ + (place.begin + place.bucket) * header_.stride);
    }

    const float* values(const uint8_t* bucket, uint32_t i) const {
        return reinterpret_cast<const float*>(bucket + header_.slots * sizeof(uint64_t)) + size_t(i) * header_.dim;
    }

    ImageHeader header_;
    const uint64_t* offsets_;
    const uint8_t* buckets_;
    std::vector<float> absent_;
};

}  // namespace xpsql
