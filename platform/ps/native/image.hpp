// The rows of a version as readers need them, in one piece of memory that may be a mapped file: whole keys, floats, no optimizer's
// state. platform/images/layout.py has the format.
//
//     header, 4096 bytes | int64 keys[first][4], zeros to a multiple of 4096 | float or half rows[first * 4 + 1][width] | checksums
//
// A key stands in one of two buckets: what is left of it, a signed number, by the first prime, or by the second one. A free place
// has the key `absent`, which no row has, and zeros, as the last row has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "half.hpp"
#include "prefetch.hpp"

namespace xpsql {

struct ImageHeader {
    static constexpr uint64_t expected_magic = 0x574F524C51535058u;  // "XPSQLROW"
    static constexpr uint32_t expected_format = 2;

    uint64_t magic;
    uint32_t format;
    uint32_t width;
    uint64_t rows;
    int64_t first, second;
    uint32_t places;
    uint32_t float_bytes;
    int64_t absent;
};

__extension__ using uint128 = unsigned __int128;

// What is left of keys, signed numbers, by a prime, never negative; without a division, and without a branch that nobody foresees.
class Remainder {
  public:
    explicit Remainder(uint64_t prime = 1) : prime_(prime), inverse_(~uint64_t{0} / prime), wrapped_((~uint64_t{0} % prime + 1) % prime) {}

    uint64_t of(uint64_t key) const {
        const auto quotient = static_cast<uint64_t>(static_cast<uint128>(key) * inverse_ >> 64);  // or one less than it is
        const uint64_t rest = within(key - quotient * prime_ - prime_);
        return within(rest - (wrapped_ & (0 - (key >> 63))));  // of key - 2^64, where it is negative
    }

  private:
    // Adds the prime to what is negative.
    uint64_t within(uint64_t rest) const { return rest + (prime_ & (0 - (rest >> 63))); }

    uint64_t prime_, inverse_, wrapped_;
};

class Image {
  public:
    static constexpr size_t head_bytes = 4096, places = 4, checked_bytes = size_t{1} << 20;

    // Floats of a row, at most: what a file of a few bytes says of itself takes no memory.
    static constexpr uint32_t most_width = 1u << 20;

    Image(const uint8_t* data, size_t size) {
        if (size < head_bytes) throw std::invalid_argument("it is shorter than its header");
        std::memcpy(&header_, data, sizeof header_);
        if (header_.magic != ImageHeader::expected_magic || header_.format != ImageHeader::expected_format)
            throw std::invalid_argument("it is none of this format");
        const auto first = static_cast<uint64_t>(header_.first), bytes = uint64_t{header_.float_bytes};
        if (header_.width == 0 || header_.width > most_width || header_.places != places || (bytes != 4 && bytes != 2) || first < 1 ||
            first > size / (places * sizeof(int64_t)) || header_.second < 1 || header_.second > header_.first)
            throw std::invalid_argument("its header is damaged");
        const uint64_t row = header_.width * bytes, rows_at = head_bytes + up(first * places * sizeof(int64_t), head_bytes);
        if (rows_at > size || first * places + 1 > (size - rows_at) / row) throw std::invalid_argument("its rows do not fill it");
        const uint64_t end = up(rows_at + (first * places + 1) * row, sizeof(uint64_t));
        if (size != end + up(end - head_bytes, checked_bytes) / checked_bytes * sizeof(uint64_t))
            throw std::invalid_argument("its rows do not fill it");
        buckets_ = reinterpret_cast<const uint64_t*>(data + head_bytes);
        rows_ = data + rows_at;
        row_bytes_ = row;
        first_ = Remainder(first);
        second_ = Remainder(static_cast<uint64_t>(header_.second));
    }

    size_t width() const { return header_.width; }
    size_t rows() const { return header_.rows; }
    bool half() const { return header_.float_bytes == 2; }

    // The place of the last row, which is zeros, and of keys that have none.
    uint64_t nowhere() const { return static_cast<uint64_t>(header_.first) * places; }

    // Calls with(i, place) for keys in their order. Memory is asked for before it is read: a key's bucket, then its row or, of one
    // key of five, the other bucket first, each `ahead` keys later.
    template <class With>
    void find(const uint64_t* keys, size_t n, With with) const {
        uint64_t at[4 * ahead];  // of the keys under way, a bucket, then a place
        for (size_t i = 0; i < n + 3 * ahead; ++i) {
            if (i < n) prefetch(buckets_ + places * (at[i % std::size(at)] = first_.of(keys[i])));
            if (const size_t j = i - ahead; j < n) {
                uint64_t& place = at[j % std::size(at)];
                place = place_in(place, keys[j]);
                if (place == nowhere()) prefetch(buckets_ + places * second_.of(keys[j]));
                else ask_row(place);
            }
            if (const size_t j = i - 2 * ahead; j < n) {
                uint64_t& place = at[j % std::size(at)];
                if (place == nowhere()) ask_row(place = place_in(second_.of(keys[j]), keys[j]));
            }
            if (const size_t j = i - 3 * ahead; j < n) with(j, at[j % std::size(at)]);
        }
    }

    // The floats of a place, in its own memory; of halves in `room`, of width floats.
    const float* row(uint64_t place, float* room) const {
        const uint8_t* from = rows_ + place * row_bytes_;
        if (!half()) return reinterpret_cast<const float*>(from);
        for (uint32_t i = 0; i < header_.width; ++i) room[i] = float_of_half(reinterpret_cast<const uint16_t*>(from)[i]);
        return room;
    }

    static uint64_t up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

  private:
    static constexpr size_t ahead = 16;

    // Without a branch: which of its places a key has, nobody foresees.
    uint64_t place_in(uint64_t bucket, uint64_t key) const {
        const uint64_t* own = buckets_ + bucket * places;
        const unsigned found = (own[0] == key) | (own[1] == key) << 1 | (own[2] == key) << 2 | (own[3] == key) << 3;
        return found ? bucket * places + static_cast<unsigned>(__builtin_ctz(found)) : nowhere();
    }

    void ask_row(uint64_t place) const {
        const uint8_t* row = rows_ + place * row_bytes_;
        for (size_t i = 0; i < row_bytes_; i += cache_line) prefetch(row + i);
        prefetch(row + row_bytes_ - 1);
    }

    ImageHeader header_;
    Remainder first_, second_;
    const uint64_t* buckets_;
    const uint8_t* rows_;
    size_t row_bytes_;
};

// An image, and another one, or none, whose rows replace rows of the same keys.
class Layers {
  public:
    Layers(const Image& base, const Image* over) : base_(base), over_(over) {
        if (over && over->width() != base.width()) throw std::invalid_argument("its rows have another width than those under it");
    }

    size_t width() const { return base_.width(); }

    // Floats that the rows of n keys take beside the images.
    size_t room(size_t n) const { return base_.half() || (over_ && over_->half()) ? n * width() : 0; }

    // Calls with(i, floats) for keys in their order; floats are in the images, or in `room`.
    template <class With>
    void find(const uint64_t* keys, size_t n, float* room, With with) const {
        std::vector<uint64_t> over;
        if (over_) {
            over.resize(n);
            over_->find(keys, n, [&](size_t i, uint64_t place) { over[i] = place; });
        }
        base_.find(keys, n, [&](size_t i, uint64_t place) {
            const bool there = over_ && over[i] != over_->nowhere();
            const float* found = there ? over_->row(over[i], room) : base_.row(place, room);
            if (found == room) room += width();
            with(i, found);
        });
    }

    // Writes 1 for keys that have a row, else 0.
    void has(const uint64_t* keys, size_t n, uint8_t* out) const {
        base_.find(keys, n, [&](size_t i, uint64_t place) { out[i] = place != base_.nowhere(); });
        if (over_) over_->find(keys, n, [&](size_t i, uint64_t place) { out[i] |= place != over_->nowhere(); });
    }

    // The floats of one key, which are kept.
    std::vector<float> row(uint64_t key) const {
        std::vector<float> floats(width()), own(room(1));
        find(&key, 1, own.data(), [&](size_t, const float* found) { std::copy(found, found + width(), floats.begin()); });
        return floats;
    }

  private:
    const Image& base_;
    const Image* over_;
};

}  // namespace xpsql
