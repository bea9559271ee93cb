// Records of one fixed size, [key | columns], found by row number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "memory.hpp"

namespace xpsql {

using Row = uint32_t;
constexpr Row no_row = 0xFFFFFFFFu;

class Records {
  public:
    // `stride`: bytes per record, a multiple of 8.
    explicit Records(size_t stride) : stride_(stride) {}

    size_t stride() const { return stride_; }
    Row end() const { return end_; }  // every row number in use is below
    uint8_t* at(Row row) const { return chunks_[row >> chunk_bits] + (row & (chunk_rows - 1)) * stride_; }

    uint64_t key(Row row) const {
        uint64_t key;
        std::memcpy(&key, at(row), sizeof key);
        return key;
    }

    size_t resident_bytes() const { return round_up(end_ * stride_, huge_page) + chunks_.capacity() * 2 * sizeof(void*) + freed_.capacity() * 8; }

    // Whether a row below end() holds a key.
    bool live(Row row) const { return row / 64 >= freed_.size() || !(freed_[row / 64] >> row % 64 & 1); }

    // A bit for each of the rows from 64 * word on that holds a key.
    uint64_t live_word(size_t word) const {
        const size_t rows = end_ - word * 64;
        const uint64_t had = rows >= 64 ? ~uint64_t{0} : (uint64_t{1} << rows) - 1;
        return word < freed_.size() ? had & ~freed_[word] : had;
    }

    // Returns a record with this key and zeros. Throws std::bad_alloc where memory or row numbers end.
    Row allocate(uint64_t key) {
        Row row = free_;
        if (row != no_row) {
            freed_[row / 64] ^= uint64_t{1} << row % 64;
            std::memcpy(&free_, at(row), sizeof free_);
            std::memset(at(row), 0, stride_);
        } else {
            row = extend();
        }
        std::memcpy(at(row), &key, sizeof key);
        return row;
    }

    // The next free row's number is kept in the record itself. Throws std::bad_alloc and leaves the record as it was.
    void release(Row row) {
        if (row / 64 >= freed_.size()) freed_.resize(end_ / 64 + 1);
        freed_[row / 64] |= uint64_t{1} << row % 64;
        std::memcpy(at(row), &free_, sizeof free_);
        free_ = row;
    }

    // Memory that the next new rows lie in and nobody has named before: a thread may ask the system for it ahead of them, since
    // zeroing pages takes as long as much else that is done with a row. {} where there is enough.
    Region ahead() {
        const size_t used = (end_ & (chunk_rows - 1)) * stride_, whole = chunk_rows * stride_;
        if (chunks_.empty() || used == 0 || named_ >= std::min(used + most_ahead, whole)) return {};
        const size_t begin = round_up(std::max(named_, used), huge_page);
        named_ = std::min(round_up(used + 2 * most_ahead, huge_page), whole);
        return begin < named_ ? Region{chunks_.back() + begin, named_ - begin} : Region{};
    }

  private:
    static constexpr size_t most_ahead = 2 * huge_page;
    static constexpr int chunk_bits = 18;
    static constexpr size_t chunk_rows = size_t{1} << chunk_bits;
    static_assert(chunk_rows * 8 % huge_page == 0, "a chunk of any stride is whole huge pages");

    Row extend() {
        if (end_ == no_row) throw std::bad_alloc();
        if ((end_ & (chunk_rows - 1)) == 0) {
            mappings_.emplace_back(chunk_rows * stride_);
            chunks_.push_back(mappings_.back().begin());
            named_ = 0;
        }
        return end_++;
    }

    size_t stride_;
    std::vector<Mapping> mappings_;
    std::vector<uint8_t*> chunks_;
    std::vector<uint64_t> freed_;  // a bit per row, up to the last one that was ever released
    Row end_ = 0;
    size_t named_ = 0;  // bytes of the last chunk
    Row free_ = no_row;
};

}  // namespace xpsql
