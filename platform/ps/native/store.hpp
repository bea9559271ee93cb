// Rows by key: an index over records, worked on in batches so that cache misses overlap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "index.hpp"
#include "prefetch.hpp"
#include "records.hpp"

namespace xpsql {

enum class Dtype { float32, uint32, uint16 };

constexpr size_t item_bytes(Dtype dtype) { return dtype == Dtype::uint16 ? 2 : 4; }

struct Column {
    std::string name;
    Dtype dtype;
    size_t dim;
    size_t offset = 0;

    size_t bytes() const { return item_bytes(dtype) * dim; }
};

// Sets the offsets, wide items first so that each is aligned, and returns the bytes of a record.
inline size_t lay_out(std::vector<Column>& columns) {
    size_t end = sizeof(uint64_t);
    for (size_t width : {4, 2})
        for (Column& column : columns)
            if (item_bytes(column.dtype) == width) {
                column.offset = end;
                end += column.bytes();
            }
    return round_up(end, 8);
}

// A part of a record, in multiples of 8 bytes.
struct Extent {
    size_t begin;
    size_t size;

    Extent with_key() const { return {0, begin + size}; }
};

// What some columns span.
inline Extent extent_of(const std::vector<const Column*>& columns) {
    size_t begin = columns.empty() ? 0 : SIZE_MAX, end = 8;
    for (const Column* column : columns) {
        begin = std::min(begin, column->offset);
        end = std::max(end, column->offset + column->bytes());
    }
    begin = begin / 8 * 8;
    return {begin, round_up(end, 8) - begin};
}

class Store {
  public:
    static constexpr size_t block = 16;

    explicit Store(std::vector<Column> columns)
        : columns_(std::move(columns)), records_(lay_out(columns_)), index_(records_), absent_(records_.stride()) {}

    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;

    size_t size() const { return index_.size(); }
    size_t row_bytes() const { return records_.stride(); }
    size_t memory_bytes() const { return records_.resident_bytes() + index_.resident_bytes(); }
    const std::vector<Column>& columns() const { return columns_; }

    size_t column_bytes() const {
        size_t bytes = 0;
        for (const Column& column : columns_) bytes += column.bytes();
        return bytes;
    }

    void lookup(const uint64_t* keys, size_t n, Row* rows) const {
        probe(keys, n, key_only, [&](size_t i, const Probe& probe) { rows[i] = confirm(probe, keys[i]).row; });
    }

    // New keys get a record of zeros. A key that stands twice is created once.
    void insert(const uint64_t* keys, size_t n, Row* rows, bool* created) {
        probe(keys, n, key_only, [&](size_t i, const Probe&) {
            rows[i] = index_.find(keys[i]);
            created[i] = rows[i] == no_row;
            if (created[i]) rows[i] = create(keys[i]);
        });
    }

    size_t evict(const uint64_t* keys, size_t n) {
        const size_t before = size();
        probe(keys, n, key_only, [&](size_t i, const Probe&) {
            const Row row = index_.erase(keys[i]);
            if (row != no_row) records_.release(row);
        });
        return before - size();
    }

    // lookup and read in one pass: a record's lines are fetched once.
    template <class Visit>
    void pull(const uint64_t* keys, size_t n, Row* rows, Extent extent, Visit visit) const {
        const uint8_t* records[block];
        probe(keys, n, extent.with_key(), [&](size_t i, const Probe& probe) {
            const Entry found = confirm(probe, keys[i]);
            rows[i] = found.row;
            records[i % block] = found.record;
            if (i % block == block - 1 || i == n - 1) visit(i / block * block, i % block + 1, records);
        });
    }

    // Calls visit(first, count, records) for blocks of rows; missing rows point at a record of zeros.
    // Throws std::out_of_range for a row that never was.
    template <class Visit>
    void read(const Row* rows, size_t n, Extent extent, Visit visit) const {
        const uint8_t* records[2][block];
        const auto resolve = [&](size_t first) {
            const size_t count = std::min(block, n - first);
            const uint8_t** to = records[first / block % 2];
            for (size_t i = 0; i < count; ++i) {
                to[i] = present(rows[first + i]) ? records_.at(rows[first + i]) : absent_.data();
                prefetch(to[i] + extent.begin, extent.size);
            }
        };
        if (n > 0) resolve(0);
        for (size_t first = 0; first < n; first += block) {
            if (first + block < n) resolve(first + block);
            visit(first, std::min(block, n - first), records[first / block % 2]);
        }
    }

    // The same for writing; missing rows point at a record that nobody reads.
    template <class Visit>
    void write(const Row* rows, size_t n, Extent extent, Visit visit) {
        std::vector<uint8_t> discarded(records_.stride());
        read(rows, n, extent, [&](size_t first, size_t count, const uint8_t* const* records) {
            uint8_t* writable[block];
            for (size_t i = 0; i < count; ++i)
                writable[i] = records[i] == absent_.data() ? discarded.data() : const_cast<uint8_t*>(records[i]);
            visit(first, count, writable);
        });
    }

    size_t slice_size(size_t slice) const { return index_.slice_size(slice); }

    // Writes the keys and rows of a slice, ordered by key.
    void slice(size_t slice, uint64_t* keys, Row* rows) const {
        std::vector<Row> found;
        found.reserve(index_.slice_size(slice));
        index_.each(slice, [&](Row row) { found.push_back(row); });
        std::vector<std::pair<uint64_t, Row>> entries;
        entries.reserve(found.size());
        read(found.data(), found.size(), key_only, [&](size_t first, size_t count, const uint8_t* const* records) {
            for (size_t i = 0; i < count; ++i) entries.emplace_back(load_key(records[i]), found[first + i]);
        });
        std::sort(entries.begin(), entries.end());
        for (size_t i = 0; i < entries.size(); ++i) {
            keys[i] = entries[i].first;
            rows[i] = entries[i].second;
        }
    }

  private:
    static uint64_t load_key(const uint8_t* record) {
        uint64_t key;
        std::memcpy(&key, record, sizeof key);
        return key;
    }

    bool present(Row row) const {
        if (row < records_.end()) return true;
        if (row == no_row) return false;
        throw std::out_of_range("row " + std::to_string(row) + " does not exist, the store has had " +
                                std::to_string(records_.end()) + " rows; take rows from lookup or insert");
    }

    Row create(uint64_t key) {
        index_.reserve(key);
        const Row row = records_.allocate(key);
        index_.insert(key, row);
        return row;
    }

    struct Entry {
        const uint8_t* record;
        Row row;
    };

    // A key on its way through probe.
    struct Probe {
        Index::Start start;
        Entry candidate;  // the record that the key probably has: the tag agrees
        bool late;        // no candidate in the home bucket, but perhaps in the one after it
    };

    Entry entry(Row row) const { return {row == no_row ? absent_.data() : records_.at(row), row}; }

    Entry confirm(const Probe& probe, uint64_t key) const {
        if (probe.candidate.row != no_row && load_key(probe.candidate.record) == key) return probe.candidate;
        return entry(index_.find(key));
    }

    // Calls act(i, probe) for every key, in order. Before that it fetches the key's bucket, then that part of the record which
    // the bucket names, then the same for the few keys that stand beyond their bucket: each step `block` keys ahead of the next,
    // and the steps of different keys side by side, so that memory never waits for the processor.
    template <class Act>
    void probe(const uint64_t* keys, size_t n, Extent extent, Act act) const {
        Probe probes[4 * block];
        const auto at = [&probes](size_t i) -> Probe& { return probes[i % (4 * block)]; };
        for (size_t i = 0; i < n + 3 * block; ++i) {
            if (i < n) fetch_bucket(keys[i], at(i));
            if (i >= block && i - block < n) fetch_record(keys[i - block], extent, at(i - block));
            if (i >= 2 * block && i - 2 * block < n && at(i - 2 * block).late) fetch_candidate(extent, at(i - 2 * block));
            if (i >= 3 * block) act(i - 3 * block, at(i - 3 * block));
        }
    }

    void fetch_bucket(uint64_t key, Probe& probe) const {
        probe.start = index_.start(key);
        prefetch(probe.start.bucket);
    }

    void fetch_record(uint64_t key, Extent extent, Probe& probe) const {
        probe.late = !fetch_candidate(extent, probe) && probe.start.bucket->overflow > 0;
        if (!probe.late) return;
        probe.start = index_.second(key);
        prefetch(probe.start.bucket);
    }

    // Fetches every record whose tag agrees; the first is the candidate.
    bool fetch_candidate(Extent extent, Probe& probe) const {
        const Bucket& bucket = *probe.start.bucket;
        Slots hits = bucket.match(probe.start.tag);
        probe.candidate = entry(hits ? bucket.rows[hits.first()] : no_row);
        if (!hits) return false;
        prefetch(probe.candidate.record + extent.begin, extent.size);
        for (hits.drop_first(); hits; hits.drop_first()) prefetch(records_.at(bucket.rows[hits.first()]));
        return true;
    }

    static constexpr Extent key_only{0, sizeof(uint64_t)};

    std::vector<Column> columns_;
    Records records_;
    Index index_;
    std::vector<uint8_t> absent_;
};

}  // namespace xpsql
