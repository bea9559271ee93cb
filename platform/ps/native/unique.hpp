// Distinct values of a batch, in order of first occurrence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "prefetch.hpp"

namespace xpsql {

// Spreads any keys, hashed or not, over the high bits.
inline uint64_t mix(uint64_t key) { return (key ^ (key >> 32)) * 0x9E3779B97F4A7C15u; }

// Writes the distinct keys to `unique` (capacity n) and each key's position among them to `inverse`; returns their number.
inline size_t find_unique(const uint64_t* keys, size_t n, uint64_t* unique, int32_t* inverse) {
    constexpr size_t ahead = 16;
    int bits = 4;
    while ((size_t{1} << bits) < 2 * n) ++bits;
    const size_t mask = (size_t{1} << bits) - 1;
    std::vector<uint32_t> table(mask + 1);  // position + 1 in `unique`, 0 where free
    size_t found = 0;
    for (size_t i = 0; i < n; ++i) {
        if (i + ahead < n) prefetch(&table[mix(keys[i + ahead]) >> (64 - bits)]);
        size_t at = mix(keys[i]) >> (64 - bits);
        while (table[at] != 0 && unique[table[at] - 1] != keys[i]) at = (at + 1) & mask;
        if (table[at] == 0) {
            unique[found] = keys[i];
            table[at] = static_cast<uint32_t>(++found);
        }
        inverse[i] = static_cast<int32_t>(table[at] - 1);
    }
    return found;
}

// Distinct codes of one batch after another: a stamp per code says in which batch it was last seen and at which index, so
// that nothing is cleared between batches.
class Stamps {
  public:
    explicit Stamps(size_t num_codes) : stamps_(num_codes) {}

    size_t num_codes() const { return stamps_.size(); }

    // Makes room for `occurrences` codes and starts a batch.
    void begin(size_t occurrences) {
        if (codes_.size() < occurrences) {
            codes_.resize(occurrences);
            counts_.resize(occurrences);
            clicks_.resize(occurrences);
        }
        found_ = 0;
        if (++batch_ == 0) {
            std::fill(stamps_.begin(), stamps_.end(), Stamp{});
            batch_ = 1;
        }
    }

    // Returns the code's index. Without a branch on whether the code is new, which no predictor could guess.
    uint32_t see(int32_t code, uint32_t click) {
        Stamp& stamp = stamps_[static_cast<size_t>(code)];
        const bool fresh = stamp.batch != batch_;
        const uint32_t index = fresh ? found_ : stamp.index;
        stamp = {batch_, index};
        codes_[found_] = fresh ? code : codes_[found_];
        counts_[index] = (fresh ? 0 : counts_[index]) + 1;
        clicks_[index] = (fresh ? 0 : clicks_[index]) + click;
        found_ += fresh;
        return index;
    }

    uint32_t found() const { return found_; }
    const int32_t* codes() const { return codes_.data(); }
    const uint32_t* counts() const { return counts_.data(); }
    const uint32_t* clicks() const { return clicks_.data(); }

  private:
    struct Stamp {
        uint32_t batch = 0;
        uint32_t index = 0;
    };

    std::vector<Stamp> stamps_;
    std::vector<int32_t> codes_;
    std::vector<uint32_t> counts_, clicks_;
    uint32_t batch_ = 0;
    uint32_t found_ = 0;
};

}  // namespace xpsql
