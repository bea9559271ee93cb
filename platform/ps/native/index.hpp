// The index: key to row number. 1024 slices by the top bits of the key, each an open-addressing table of buckets that grows by
// itself, so that growth never stops the store for longer than one slice takes.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "bucket.hpp"
#include "memory.hpp"
#include "prefetch.hpp"
#include "records.hpp"
#include "unique.hpp"

namespace xpsql {

constexpr size_t num_slices = 1024;
constexpr int slice_shift = 54;

// Pages of 32 buckets, which all slices share: what one slice outgrows, another grows into.
class Pages {
  public:
    static constexpr size_t buckets = 32;

    Bucket* allocate() {
        if (free_.empty()) map();
        Bucket* page = free_.back();
        free_.pop_back();
        std::memset(static_cast<void*>(page), 0, buckets * sizeof(Bucket));
        return page;
    }

    // Room is reserved in map(), so this cannot fail.
    void release(Bucket* page) { free_.push_back(page); }

    size_t resident_bytes() const { return mappings_.size() * huge_page + free_.capacity() * sizeof(Bucket*); }

  private:
    static constexpr size_t bytes = buckets * sizeof(Bucket);

    void map() {
        free_.reserve((mappings_.size() + 1) * (huge_page / bytes));
        mappings_.emplace_back(huge_page);
        for (size_t at = huge_page; at > 0; at -= bytes)
            free_.push_back(reinterpret_cast<Bucket*>(mappings_.back().begin() + at - bytes));
    }

    std::vector<Mapping> mappings_;
    std::vector<Bucket*> free_;
};

class Index {
  public:
    // Where a key's probe begins. Pages are never unmapped, so a start that growth made stale may still be read.
    struct Start {
        const Bucket* bucket;
        uint8_t tag;
    };

    explicit Index(const Records& records) : records_(records), slices_(num_slices) {}

    size_t size() const { return size_; }

    size_t resident_bytes() const {
        size_t tables = slices_.size() * sizeof(Slice);
        for (const Slice& slice : slices_) tables += slice.pages.capacity() * sizeof(Bucket*);
        return pages_.resident_bytes() + tables;
    }

    Start start(uint64_t key) const {
        const Slice& slice = slices_[key >> slice_shift];
        const uint64_t hash = mix(key);
        return {slice.num_buckets ? slice.at(slice.home(hash)) : &nothing, tag(hash)};
    }

    // Where a probe that leaves its first bucket goes on; the key's slice is not empty.
    Start second(uint64_t key) const {
        const Slice& slice = slices_[key >> slice_shift];
        const uint64_t hash = mix(key);
        return {slice.at(slice.next(slice.home(hash))), tag(hash)};
    }

    Row find(uint64_t key) const {
        const Slice& slice = slices_[key >> slice_shift];
        if (slice.num_buckets == 0) return no_row;
        const uint64_t hash = mix(key);
        uint32_t at = slice.home(hash);
        // After many evictions every bucket of a small slice may have been passed by some key: all of them are looked at once.
        for (uint32_t left = slice.num_buckets; left > 0; --left, at = slice.next(at)) {
            const Bucket& bucket = *slice.at(at);
            for (Slots hits = bucket.match(tag(hash)); hits; hits.drop_first())
                if (records_.key(bucket.rows[hits.first()]) == key) return bucket.rows[hits.first()];
            if (bucket.overflow == 0) return no_row;
        }
        return no_row;
    }

    // Makes room for one more key in the key's slice. Throws std::bad_alloc and leaves the index as it was.
    void reserve(uint64_t key) {
        Slice& slice = slices_[key >> slice_shift];
        if (slice.size == slice.capacity()) grow(slice);
    }

    // `key` is absent, and room was reserved for it.
    void insert(uint64_t key, Row row) {
        Slice& slice = slices_[key >> slice_shift];
        place(slice, mix(key), row);
        ++slice.size;
        ++size_;
    }

    // Returns the row the key had, or no_row.
    Row erase(uint64_t key) {
        const Row row = find(key);
        if (row == no_row) return no_row;
        Slice& slice = slices_[key >> slice_shift];
        const uint64_t hash = mix(key);
        for (uint32_t at = slice.home(hash);; at = slice.next(at)) {
            Bucket& bucket = *slice.at(at);
            for (Slots hits = bucket.match(tag(hash)); hits; hits.drop_first()) {
                if (bucket.rows[hits.first()] != row) continue;
                bucket.tags[hits.first()] = 0;
                --slice.size;
                --size_;
                return row;
            }
            bucket.unpass();
        }
    }

    size_t slice_size(size_t slice) const { return slices_[slice].size; }

    // Calls visit(row) for every row of a slice, in no particular order.
    template <class Visit>
    void each(size_t slice, Visit visit) const {
        slices_[slice].each(visit);
    }

  private:
    struct Slice {
        std::vector<Bucket*> pages;
        uint32_t num_buckets = 0;
        uint32_t size = 0;

        Bucket* at(uint32_t bucket) const { return pages[bucket / Pages::buckets] + bucket % Pages::buckets; }
        uint32_t home(uint64_t hash) const { return static_cast<uint32_t>((hash >> 32) * num_buckets >> 32); }
        uint32_t next(uint32_t bucket) const { return bucket + 1 == num_buckets ? 0 : bucket + 1; }

        // Ten keys for twelve slots: few probes go on to a second bucket, and a key always finds room.
        uint64_t capacity() const { return uint64_t{10} * num_buckets; }

        template <class Visit>
        void each(Visit visit) const {
            for (uint32_t at = 0; at < num_buckets; ++at)
                for (int slot = 0; slot < Bucket::size; ++slot)
                    if (this->at(at)->tags[slot]) visit(this->at(at)->rows[slot]);
        }
    };

    static constexpr uint32_t first_buckets = 4;
    inline static const Bucket nothing{};

    // Bits that the home bucket does not depend on.
    static uint8_t tag(uint64_t hash) {
        const auto byte = static_cast<uint8_t>(hash >> 24);
        return byte ? byte : 1;
    }

    // Doubles within the first page, then adds a sixth: a large index is 71 to 83 % full, about 7 bytes a key. Larger steps would
    // move fewer keys, and waste more.
    static uint32_t grown(uint32_t num_buckets) {
        if (num_buckets < Pages::buckets) return num_buckets ? 2 * num_buckets : first_buckets;
        return static_cast<uint32_t>(round_up(num_buckets + num_buckets / 6, Pages::buckets));
    }

    static void place(const Slice& slice, uint64_t hash, Row row) {
        uint32_t at = slice.home(hash);
        for (; !slice.at(at)->free_slots(); at = slice.next(at)) slice.at(at)->pass();
        Bucket& bucket = *slice.at(at);
        const int slot = bucket.free_slots().first();
        bucket.tags[slot] = tag(hash);
        bucket.rows[slot] = row;
    }

    void grow(Slice& slice) {
        std::vector<Row> rows;
        rows.reserve(slice.size);
        slice.each([&](Row row) { rows.push_back(row); });
        Slice wider;
        wider.num_buckets = grown(slice.num_buckets);
        wider.size = slice.size;
        fill(wider.pages, wider.num_buckets);
        constexpr size_t ahead = 24;
        for (size_t i = 0; i < rows.size(); ++i) {
            if (i + ahead < rows.size()) prefetch(records_.at(rows[i + ahead]));
            place(wider, mix(records_.key(rows[i])), rows[i]);
        }
        for (Bucket* page : slice.pages) pages_.release(page);
        slice = std::move(wider);
    }

    void fill(std::vector<Bucket*>& pages, uint32_t num_buckets) {
        const size_t count = round_up(num_buckets, Pages::buckets) / Pages::buckets;
        pages.reserve(count);
        try {
            while (pages.size() < count) pages.push_back(pages_.allocate());
        } catch (...) {
            for (Bucket* page : pages) pages_.release(page);
            throw;
        }
    }

    const Records& records_;
    Pages pages_;
    std::vector<Slice> slices_;
    size_t size_ = 0;
};

}  // namespace xpsql
