// Crosses: distinct combinations of codes, and the keys of values side by side, as the SQL function cross writes them.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "prefetch.hpp"
#include "unique.hpp"
#include "xxh64.hpp"

namespace xpsql {

// Codes of some members, [members][n], by row of the chunk.
struct CodeLines {
    const int32_t* data;
    size_t members, n;

    int32_t at(size_t member, size_t i) const { return data[member * n + i]; }

    bool is_there(size_t i) const {
        bool there = true;
        for (size_t m = 0; m < members; ++m) there &= at(m, i) >= 0;
        return there;
    }

    bool same(size_t i, size_t j) const {
        bool same = true;
        for (size_t m = 0; m < members; ++m) same &= at(m, i) == at(m, j);
        return same;
    }

    uint64_t hash(size_t i) const {
        uint64_t hash = 0;
        for (size_t m = 0; m < members; ++m) hash = mix(hash + static_cast<uint32_t>(at(m, i)) + 1);
        return hash;
    }
};

// Writes where each distinct combination first occurs (capacity n), and each row's place among them, -1 where a code is; returns
// their number.
inline size_t find_combinations(const CodeLines& codes, int64_t* first, int32_t* inverse) {
    constexpr size_t ahead = 16;
    int bits = 4;
    while ((size_t{1} << bits) < 2 * codes.n) ++bits;
    const size_t mask = (size_t{1} << bits) - 1;
    std::vector<uint32_t> table(mask + 1);  // position + 1 in `first`, 0 where free
    std::vector<uint64_t> hashes(codes.n);
    for (size_t i = 0; i < codes.n; ++i) hashes[i] = codes.hash(i);
    size_t found = 0;
    for (size_t i = 0; i < codes.n; ++i) {
        if (i + ahead < codes.n) prefetch(&table[hashes[i + ahead] >> (64 - bits)]);
        if (!codes.is_there(i)) {
            inverse[i] = -1;
            continue;
        }
        size_t at = hashes[i] >> (64 - bits);
        while (table[at] != 0 && !codes.same(static_cast<size_t>(first[table[at] - 1]), i)) at = (at + 1) & mask;
        if (table[at] == 0) {
            first[found] = static_cast<int64_t>(i);
            table[at] = static_cast<uint32_t>(++found);
        }
        inverse[i] = static_cast<int32_t>(table[at] - 1);
    }
    return found;
}

// Hashes values side by side in one buffer, which is written anew for each.
class CrossHash {
  public:
    explicit CrossHash(uint64_t seed) : seed_(seed), text_(256) {}

    void begin() { size_ = 0; }

    void separate() { put('|'); }

    void null() {
        put('\\');
        put('N');
    }

    void value(const uint8_t* data, size_t size) {
        reserve(2 * size);
        bool plain = true;
        for (size_t i = 0; i < size; ++i) plain &= (data[i] != '|') & (data[i] != '\\');
        if (plain) {
            std::memcpy(text_.data() + size_, data, size);
            size_ += size;
            return;
        }
        for (size_t i = 0; i < size; ++i) {
            if (data[i] == '|' || data[i] == '\\') text_[size_++] = '\\';
            text_[size_++] = data[i];
        }
    }

    uint64_t key() const { return xxh64::hash_bytes(text_.data(), size_, seed_); }

  private:
    void reserve(size_t more) {
        if (text_.size() < size_ + more) text_.resize(2 * (size_ + more));
    }

    void put(char byte) {
        reserve(1);
        text_[size_++] = static_cast<uint8_t>(byte);
    }

    uint64_t seed_;
    std::vector<uint8_t> text_;
    size_t size_ = 0;
};

}  // namespace xpsql
