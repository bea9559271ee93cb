// Rows by key: an index over records, worked on in batches so that cache misses overlap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "index.hpp"
#include "parallel.hpp"
#include "prefetch.hpp"
#include "records.hpp"
#include "snapshot.hpp"

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

// Sets the offsets and returns the bytes of a record. Wide items come first, so that each is aligned, and of those the floats,
// which most reads want: a read of few floats touches one cache line where the whole record lies in two.
inline size_t lay_out(std::vector<Column>& columns) {
    size_t end = sizeof(uint64_t);
    for (const Dtype dtype : {Dtype::float32, Dtype::uint32, Dtype::uint16})
        for (Column& column : columns)
            if (column.dtype == dtype) {
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
    static constexpr size_t block = 32;
    static_assert(block <= 256, "positions in a block are bytes");
    static constexpr size_t piece = 1024;  // keys that a thread takes at a time
    static_assert(piece % block == 0, "pieces are whole blocks");

    explicit Store(std::vector<Column> columns)
        : columns_(std::move(columns)), records_(lay_out(columns_)), index_(records_), snapshot_(records_),
          absent_(records_.stride()) {}

    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;

    size_t size() const { return index_.size(); }
    size_t row_bytes() const { return records_.stride(); }
    size_t memory_bytes() const { return records_.resident_bytes() + index_.resident_bytes() + snapshot_.resident_bytes(); }
    const std::vector<Column>& columns() const { return columns_; }

    size_t column_bytes() const {
        size_t bytes = 0;
        for (const Column& column : columns_) bytes += column.bytes();
        return bytes;
    }

    void lookup(const uint64_t* keys, size_t n, Row* rows) const {
        in_pieces(n, piece, [&](size_t begin, size_t end) {
            probe(keys, begin, end, key_only, [&](size_t first, size_t count, Candidate* candidates) {
                for (size_t i = 0; i < count; ++i) rows[first + i] = confirm(candidates[i], keys[first + i]).row;
            });
        });
    }

    // New keys get a record of zeros. A key that stands twice is created once.
    void insert(const uint64_t* keys, size_t n, Row* rows, bool* created) {
        if (const Region ahead = records_.ahead(); ahead.bytes > 0) Team::get().post([ahead] { make_resident(ahead); });
        probe(keys, 0, n, key_only, [&](size_t first, size_t count, Candidate*) {
            for (size_t i = first; i < first + count; ++i) {
                rows[i] = index_.find(keys[i]);
                created[i] = rows[i] == no_row;
                if (created[i]) rows[i] = create(keys[i]);
            }
        });
    }

    size_t evict(const uint64_t* keys, size_t n) {
        const size_t before = size();
        probe(keys, 0, n, key_only, [&](size_t first, size_t count, Candidate*) {
            for (size_t i = first; i < first + count; ++i) {
                const Row row = index_.erase(keys[i]);
                if (row == no_row) continue;
                if (snapshot_.tracking()) snapshot_.evicting(row);
                records_.release(row);
            }
        });
        return before - size();
    }

    // lookup and read in one pass: a record's lines are fetched once.
    template <class Visit>
    void pull(const uint64_t* keys, size_t n, Row* rows, Extent extent, Visit visit) const {
        in_pieces(n, piece, [&](size_t begin, size_t end) {
            probe(keys, begin, end, extent.with_key(), [&](size_t first, size_t count, Candidate* candidates) {
                const uint8_t* records[block];
                for (size_t i = 0; i < count; ++i) {
                    const Candidate& found = confirm(candidates[i], keys[first + i]);
                    rows[first + i] = found.row;
                    records[i] = found.record;
                }
                visit(first, count, records);
            });
        });
    }

    // Calls visit(first, count, records) for blocks of rows, in any order and on several threads; missing rows point at a record
    // of zeros. Throws std::out_of_range for a row that never was.
    template <class Visit>
    void read(const Row* rows, size_t n, Extent extent, Visit visit) const {
        in_pieces(n, piece, [&](size_t begin, size_t end) { read_piece(rows, begin, end, extent, visit); });
    }

    // The same for writing; missing rows point at a record that nobody reads.
    template <class Visit>
    void write(const Row* rows, size_t n, Extent extent, Visit visit) {
        if (snapshot_.tracking()) {
            return write_piece(rows, 0, n, extent, [&](size_t first, size_t count, uint8_t* const* records) {
                for (size_t i = first; i < first + count; ++i)
                    if (rows[i] != no_row) snapshot_.writing(rows[i]);
                visit(first, count, records);
            });
        }
        in_pieces(n, piece, [&](size_t begin, size_t end) { write_piece(rows, begin, end, extent, visit); });
    }

    // Puts whole records, as `Snapshot::take` gives them, in place of the rows of their keys. `keys`: theirs.
    void put(const uint64_t* keys, const uint8_t* records, size_t n) {
        const size_t stride = records_.stride();
        std::vector<Row> rows(n);
        const std::unique_ptr<bool[]> created(new bool[n]);
        insert(keys, n, rows.data(), created.get());
        write(rows.data(), n, {0, stride}, [&](size_t first, size_t count, uint8_t* const* to) {
            for (size_t i = 0; i < count; ++i) std::memcpy(to[i], records + (first + i) * stride, stride);
        });
    }

    Snapshot& snapshot() { return snapshot_; }
    const Snapshot& snapshot() const { return snapshot_; }

    Row end() const { return records_.end(); }

    // Calls visit(key, row) for the rows among numbers [begin, end), which lie side by side in memory.
    template <class Visit>
    void scan(Row begin, Row end, Visit visit) const {
        for (Row row = begin; row < std::min(end, records_.end()); ++row)
            if (records_.live(row)) visit(records_.key(row), row);
    }

    size_t slice_size(size_t slice) const { return index_.slice_size(slice); }

    // Writes the keys and rows of a slice, ordered by key.
    void slice(size_t slice, uint64_t* keys, Row* rows) const {
        std::vector<Row> found;
        found.reserve(index_.slice_size(slice));
        index_.each(slice, [&](Row row) { found.push_back(row); });
        std::vector<Entry> entries;
        entries.reserve(found.size());
        read_piece(found.data(), 0, found.size(), key_only, [&](size_t first, size_t count, const uint8_t* const* records) {
            for (size_t i = 0; i < count; ++i) entries.push_back({load_key(records[i]), found[first + i]});
        });
        order(entries, [&](size_t i, const Entry& entry) {
            keys[i] = entry.key;
            rows[i] = entry.row;
        });
    }

  private:
    struct Entry {
        uint64_t key;
        Row row;
    };

    // Calls put(i, entry) for the entries of a slice, ordered by key. Keys are hashes, so the bits after the slice's deal them out
    // evenly, about one a bucket.
    template <class Put>
    static void order(const std::vector<Entry>& entries, Put put) {
        int bits = 1;
        while (entries.size() >> bits) ++bits;
        const auto bucket = [bits](const Entry& entry) { return (entry.key << (64 - slice_shift)) >> (64 - bits); };
        std::vector<uint32_t> ends((size_t{1} << bits) + 1);
        for (const Entry& entry : entries) ++ends[bucket(entry) + 1];
        for (size_t b = 1; b < ends.size(); ++b) ends[b] += ends[b - 1];
        std::vector<Entry> ordered(entries.size());
        for (const Entry& entry : entries) ordered[ends[bucket(entry)]++] = entry;
        const auto before = [](const Entry& one, const Entry& other) { return one.key < other.key; };
        for (size_t b = 0, first = 0; b + 1 < ends.size(); first = ends[b++])
            std::sort(ordered.data() + first, ordered.data() + ends[b], before);
        for (size_t i = 0; i < ordered.size(); ++i) put(i, ordered[i]);
    }

    // read, of rows [begin, end).
    template <class Visit>
    void read_piece(const Row* rows, size_t begin, size_t end, Extent extent, Visit visit) const {
        const uint8_t* records[2][block];
        const auto resolve = [&](size_t first) {
            const size_t count = std::min(block, end - first);
            const uint8_t** to = records[first / block % 2];
            for (size_t i = 0; i < count; ++i) {
                to[i] = present(rows[first + i]) ? records_.at(rows[first + i]) : absent_.data();
                prefetch(to[i] + extent.begin, extent.size);
            }
        };
        if (begin < end) resolve(begin);
        for (size_t first = begin; first < end; first += block) {
            if (first + block < end) resolve(first + block);
            visit(first, std::min(block, end - first), records[first / block % 2]);
        }
    }

    // The same for writing.
    template <class Visit>
    void write_piece(const Row* rows, size_t begin, size_t end, Extent extent, Visit visit) const {
        std::vector<uint8_t> discarded(records_.stride());
        read_piece(rows, begin, end, extent, [&](size_t first, size_t count, const uint8_t* const* records) {
            uint8_t* writable[block];
            for (size_t i = 0; i < count; ++i)
                writable[i] = records[i] == absent_.data() ? discarded.data() : const_cast<uint8_t*>(records[i]);
            visit(first, count, writable);
        });
    }

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
        if (snapshot_.tracking()) snapshot_.created(row);
        return row;
    }

    // The record that a key probably has: its tag agrees.
    struct Candidate {
        const uint8_t* record;
        Row row;
    };

    Candidate candidate(Row row) const { return {row == no_row ? absent_.data() : records_.at(row), row}; }

    const Candidate& confirm(Candidate& found, uint64_t key) const {
        if (found.row == no_row || load_key(found.record) != key) found = candidate(index_.find(key));
        return found;
    }

    // A block of keys on its way through probe.
    struct Probe {
        Index::Start starts[block];
        Candidate candidates[block];
        uint8_t late[block];  // those without a candidate in their home bucket, but perhaps in the one after it
        size_t num_late;
    };

    // Calls act(first, count, candidates) for blocks of keys [begin, end), in order, after fetching their buckets, then that part of the
    // records which the buckets name, then the same for the few keys that stand beyond their bucket: steps a block apart.
    template <class Act>
    void probe(const uint64_t* keys, size_t begin, size_t end, Extent extent, Act act) const {
        Probe probes[3];
        const size_t blocks = (end - begin + block - 1) / block;
        const auto count = [&](size_t number) { return std::min(block, end - begin - number * block); };
        keys += begin;
        for (size_t step = 0; step < blocks + 3; ++step) {
            if (step >= 3) act(begin + (step - 3) * block, count(step - 3), probes[step % 3].candidates);
            if (step < blocks) fetch_buckets(keys + step * block, count(step), probes[step % 3]);
            if (step >= 1 && step - 1 < blocks)
                fetch_records(keys + (step - 1) * block, count(step - 1), extent, probes[(step - 1) % 3]);
            if (step >= 2 && step - 2 < blocks) fetch_late_records(extent, probes[(step - 2) % 3]);
        }
    }

    void fetch_buckets(const uint64_t* keys, size_t count, Probe& probe) const {
        for (size_t i = 0; i < count; ++i) {
            probe.starts[i] = index_.start(keys[i]);
            prefetch(probe.starts[i].bucket);
        }
    }

    void fetch_records(const uint64_t* keys, size_t count, Extent extent, Probe& probe) const {
        probe.num_late = 0;
        for (size_t i = 0; i < count; ++i) {
            const Index::Start start = probe.starts[i];
            if (!fetch_record(start, extent, probe.candidates[i]) && start.bucket->overflow > 0) {
                probe.starts[i] = index_.second(keys[i]);
                prefetch(probe.starts[i].bucket);
                probe.late[probe.num_late++] = static_cast<uint8_t>(i);
            }
        }
    }

    void fetch_late_records(Extent extent, Probe& probe) const {
        for (size_t i = 0; i < probe.num_late; ++i)
            fetch_record(probe.starts[probe.late[i]], extent, probe.candidates[probe.late[i]]);
    }

    // Fetches every record whose tag agrees; the first is the candidate.
    bool fetch_record(Index::Start start, Extent extent, Candidate& found) const {
        Slots hits = start.bucket->match(start.tag);
        found = candidate(hits ? start.bucket->rows[hits.first()] : no_row);
        if (!hits) return false;
        prefetch(found.record + extent.begin, extent.size);
        for (hits.drop_first(); hits; hits.drop_first()) prefetch(records_.at(start.bucket->rows[hits.first()]));
        return true;
    }

    static constexpr Extent key_only{0, sizeof(uint64_t)};

    std::vector<Column> columns_;
    Records records_;
    Index index_;
    Snapshot snapshot_;
    std::vector<uint8_t> absent_;
};

}  // namespace xpsql
