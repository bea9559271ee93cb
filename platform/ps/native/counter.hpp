// Small exact counters of keys that have no row: 8 bytes each. A slice is the top ten bits of a key, so an entry holds the other
// 54 bits and a count of ten bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "index.hpp"
#include "unique.hpp"

namespace xpsql {

class Counter {
  public:
    static constexpr int count_bits = 64 - slice_shift;
    static constexpr uint32_t most = (uint32_t{1} << count_bits) - 1;
    static_assert(num_slices == size_t{1} << count_bits, "what a slice says of its keys is the room of a count");

    Counter() : slices_(num_slices) {}

    size_t size() const { return size_; }

    size_t resident_bytes() const {
        size_t bytes = slices_.size() * sizeof(Slice);
        for (const Slice& slice : slices_) bytes += slice.entries.capacity() * sizeof(uint64_t);
        return bytes;
    }

    uint32_t find(uint64_t key) const {
        const Slice& slice = slices_[key >> slice_shift];
        if (slice.size == 0) return 0;
        const uint64_t entry = slice.entries[slice.place(key)];
        return static_cast<uint32_t>(entry) & most;
    }

    // A sum beyond `most` stays there. Throws std::bad_alloc and leaves the counter as it was.
    void add(uint64_t key, uint32_t amount) {
        if (amount == 0) return;
        Slice& slice = slices_[key >> slice_shift];
        if (slice.size >= slice.capacity()) grow(slice);
        uint64_t& entry = slice.entries[slice.place(key)];
        if (entry == 0) {
            entry = key << count_bits;
            ++slice.size;
            ++size_;
        }
        const uint32_t before = static_cast<uint32_t>(entry) & most;
        entry += std::min(amount, most - before);
    }

    void erase(uint64_t key) {
        Slice& slice = slices_[key >> slice_shift];
        if (slice.size == 0) return;
        size_t hole = slice.place(key);
        if (slice.entries[hole] == 0) return;
        --slice.size;
        --size_;
        // Entries after the hole that would not be found beyond it move into it: no marks are left behind.
        // Source: Knuth, The Art of Computer Programming, volume 3, section 6.4, algorithm R.
        slice.entries[hole] = 0;
        for (size_t at = slice.next(hole); slice.entries[at] != 0; at = slice.next(at)) {
            const size_t home = slice.home(slice.entries[at] >> count_bits);
            const bool reachable = hole <= at ? (hole < home && home <= at) : (hole < home || home <= at);
            if (reachable) continue;
            slice.entries[hole] = slice.entries[at];
            slice.entries[at] = 0;
            hole = at;
        }
    }

    // Calls visit(key, count) for every counter of a slice, in no particular order.
    template <class Visit>
    void each(size_t slice, Visit visit) const {
        for (const uint64_t entry : slices_[slice].entries)
            if (entry) visit(uint64_t{slice} << slice_shift | entry >> count_bits, static_cast<uint32_t>(entry) & most);
    }

  private:
    struct Slice {
        std::vector<uint64_t> entries;  // (54 bits of the key << 10) | count; 0 where free
        size_t size = 0;

        size_t capacity() const { return entries.size() / 16 * 13; }
        size_t next(size_t at) const { return at + 1 == entries.size() ? 0 : at + 1; }

        size_t home(uint64_t rest) const {
            return static_cast<size_t>((mix(rest) >> 32) * static_cast<uint64_t>(entries.size()) >> 32);
        }

        // Where the key stands, or would.
        size_t place(uint64_t key) const {
            const uint64_t rest = key & ((uint64_t{1} << slice_shift) - 1);
            size_t at = home(rest);
            while (entries[at] != 0 && entries[at] >> count_bits != rest) at = next(at);
            return at;
        }
    };

    static constexpr size_t first_entries = 16;

    // A quarter more each time: 65 to 81 % full, 10 to 12 bytes a key.
    static void grow(Slice& slice) {
        Slice wider;
        wider.size = slice.size;
        wider.entries.resize(slice.entries.empty() ? first_entries : round_up(slice.entries.size() * 5 / 4, 16));
        for (const uint64_t entry : slice.entries) {
            if (entry == 0) continue;
            size_t at = wider.home(entry >> count_bits);
            while (wider.entries[at] != 0) at = wider.next(at);
            wider.entries[at] = entry;
        }
        slice = std::move(wider);
    }

    std::vector<Slice> slices_;
    size_t size_ = 0;
};

}  // namespace xpsql
