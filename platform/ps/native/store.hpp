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

// The part of a record that some columns span.
struct Extent {
    size_t begin;
    size_t size;

    explicit Extent(const std::vector<const Column*>& columns) : begin(columns.empty() ? 0 : SIZE_MAX), size(0) {
        size_t end = 0;
        for (const Column* column : columns) {
            begin = std::min(begin, column->offset);
            end = std::max(end, column->offset + column->bytes());
        }
        size = end - begin;
    }
};

class Store {
  public:
    static constexpr size_t block = 32;

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
        probe(keys, n, sizeof(uint64_t), [&](size_t i) { rows[i] = index_.find(keys[i]); });
    }

    // New keys get a record of zeros. A key that stands twice is created once.
    void insert(const uint64_t* keys, size_t n, Row* rows, bool* created) {
        probe(keys, n, sizeof(uint64_t), [&](size_t i) {
            rows[i] = index_.find(keys[i]);
            created[i] = rows[i] == no_row;
            if (created[i]) rows[i] = create(keys[i]);
        });
    }

    size_t evict(const uint64_t* keys, size_t n) {
        const size_t before = size();
        probe(keys, n, sizeof(uint64_t), [&](size_t i) {
            const Row row = index_.erase(keys[i]);
            if (row != no_row) records_.release(row);
        });
        return before - size();
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

    // lookup and gather in one pass: a record's lines are fetched once.
    template <class Visit>
    void pull(const uint64_t* keys, size_t n, Row* rows, Extent extent, Visit visit) const {
        constexpr size_t pass = 16 * block;
        for (size_t first = 0; first < n; first += pass) {
            const size_t count = std::min(pass, n - first);
            probe(keys + first, count, extent.begin + extent.size,
                  [&](size_t i) { rows[first + i] = index_.find(keys[first + i]); });
            read(rows + first, count, extent, [&](size_t at, size_t size, const uint8_t* const* records) {
                visit(first + at, size, records);
            });
        }
    }

    size_t slice_size(size_t slice) const { return index_.slice_size(slice); }

    // Writes the keys and rows of a slice, ordered by key.
    void slice(size_t slice, uint64_t* keys, Row* rows) const {
        std::vector<Row> found;
        found.reserve(index_.slice_size(slice));
        index_.each(slice, [&](Row row) { found.push_back(row); });
        std::vector<std::pair<uint64_t, Row>> entries;
        entries.reserve(found.size());
        read(found.data(), found.size(), Extent{{}}, [&](size_t first, size_t count, const uint8_t* const* records) {
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

    // Calls act(i) for every key, in order, after fetching its bucket and then the first `bytes` of the record that the
    // bucket names: three steps a block apart.
    template <class Act>
    void probe(const uint64_t* keys, size_t n, size_t bytes, Act act) const {
        Index::Start starts[2][block];
        for (size_t first = 0; first < n + 2 * block; first += block) {
            if (first < n) fetch_buckets(keys + first, std::min(block, n - first), starts[first / block % 2]);
            if (first >= block && first - block < n)
                fetch_records(starts[(first / block - 1) % 2], std::min(block, n - (first - block)), bytes);
            if (first >= 2 * block)
                for (size_t i = first - 2 * block; i < std::min(first - block, n); ++i) act(i);
        }
    }

    void fetch_buckets(const uint64_t* keys, size_t count, Index::Start* starts) const {
        for (size_t i = 0; i < count; ++i) {
            starts[i] = index_.start(keys[i]);
            prefetch(starts[i].bucket);
        }
    }

    void fetch_records(const Index::Start* starts, size_t count, size_t bytes) const {
        for (size_t i = 0; i < count; ++i)
            if (const Slots hits = starts[i].bucket->match(starts[i].tag))
                prefetch(records_.at(starts[i].bucket->rows[hits.first()]), bytes);
    }

    std::vector<Column> columns_;
    Records records_;
    Index index_;
    std::vector<uint8_t> absent_;
};

}  // namespace xpsql
