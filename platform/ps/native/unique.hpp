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
        if (seen_.size() < occurrences) seen_.resize(occurrences);
        found_ = 0;
        if (++batch_ == 0) {
            std::fill(stamps_.begin(), stamps_.end(), Stamp{});
            batch_ = 1;
        }
    }

    // Sets each code's index, -1 for code -1; a code occurs count(i) times, clicks(i) of them with a positive label. There is no branch on whether a code is new, which in a skewed slot no predictor can
    // guess, and a known code's stamp is not written back (the store goes to `unused`), so that the occurrences of a frequent
    // code do not wait for each other.
    template <class Count, class Clicks>
    void see(const int32_t* codes, size_t n, int32_t* index, Count count, Clicks clicks) {
        Stamp* const stamps = stamps_.data();
        Seen* const seen = seen_.data();
        const uint32_t batch = batch_;
        uint32_t found = found_;
        Stamp unused;
        for (size_t i = 0; i < n; ++i) {
            const int32_t code = codes[i];
            if (code < 0) {
                index[i] = -1;
                continue;
            }
            Stamp* const stamp = stamps + code;
            const uint32_t fresh = stamp->batch != batch;
            const uint32_t known = fresh - 1;  // all bits, or none where the code is new
            const uint32_t at = (stamp->index & known) | (found & ~known);
            *(fresh ? stamp : &unused) = {batch, at};
            seen[at] = {code, (seen[at].count & known) + count(i), (seen[at].clicks & known) + clicks(i)};
            found += fresh;
            index[i] = static_cast<int32_t>(at);
        }
        found_ = found;
    }

    uint32_t found() const { return found_; }

    void copy(int32_t* codes, uint32_t* counts, uint32_t* clicks) const {
        for (size_t i = 0; i < found_; ++i) {
            codes[i] = seen_[i].code;
            counts[i] = seen_[i].count;
            clicks[i] = seen_[i].clicks;
        }
    }

  private:
    struct Stamp {
        uint32_t batch = 0;
        uint32_t index = 0;
    };

    struct Seen {
        int32_t code = 0;
        uint32_t count = 0;
        uint32_t clicks = 0;
    };

    std::vector<Stamp> stamps_;
    std::vector<Seen> seen_;
    uint32_t batch_ = 0;
    uint32_t found_ = 0;
};

}  // namespace xpsql
