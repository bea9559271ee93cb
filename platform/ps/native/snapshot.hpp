// The rows of a store as they were at one moment, taken piece by piece while the store goes on changing: a row that is about to
// change is copied first, unless it was taken already.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "prefetch.hpp"
#include "records.hpp"

namespace xpsql {

// A bit per row; those beyond the last one ever set are 0.
class Marks {
  public:
    bool test(Row row) const { return row / 64 < words_.size() && (words_[row / 64] >> row % 64 & 1); }

    void set(Row row) {
        if (row / 64 >= words_.size()) words_.resize(row / 64 + 1);
        // Most rows are marked already: what is only read, the caches of several cores share.
        if (!test(row)) words_[row / 64] |= uint64_t{1} << row % 64;
    }

    void clear(Row row) {
        if (row / 64 < words_.size()) words_[row / 64] &= ~(uint64_t{1} << row % 64);
    }

    std::vector<uint64_t>& words() { return words_; }
    const std::vector<uint64_t>& words() const { return words_; }
    size_t resident_bytes() const { return words_.capacity() * sizeof(uint64_t); }

  private:
    std::vector<uint64_t> words_;
};

// Which rows changed since one moment, for one who asks for them again and again.
class Changes {
  public:
    explicit Changes(const Records& records) : records_(records) {}

    bool tracking() const { return tracking_; }
    bool known() const { return tracking_ && !forgot_; }
    size_t resident_bytes() const { return rows_.resident_bytes() + gone_.capacity() * sizeof(uint64_t); }

    size_t count() const {
        size_t count = 0;
        for (const uint64_t word : rows_.words()) count += static_cast<size_t>(__builtin_popcountll(word));
        return count;
    }

    // Begins anew. Moves the rows changed until now to `rows`, and the keys evicted to `gone`; some may have rows again.
    void turn(Marks& rows, std::vector<uint64_t>& gone) {
        std::swap(rows, rows_);
        rows_.words().assign(rows.words().size(), 0);
        gone = std::exchange(gone_, {});
        tracking_ = true;
        forgot_ = false;
    }

    // Which rows changed is not known, until the next turn.
    void forget() { forgot_ = true; }

    void changed(Row row) { rows_.set(row); }

    void evicting(Row row) {
        rows_.clear(row);
        if (forgot_) return;
        // Beyond a share of the rows, a snapshot of all of them costs less than the list.
        if (gone_.size() >= few_gone && gone_.size() * sizeof(uint64_t) * 8 > size_t{records_.end()} * records_.stride()) {
            forgot_ = true;
            gone_ = {};
        } else {
            gone_.push_back(records_.key(row));
        }
    }

  private:
    static constexpr size_t few_gone = 1 << 16;

    const Records& records_;
    bool tracking_ = false;
    bool forgot_ = false;
    Marks rows_;
    std::vector<uint64_t> gone_;
};

class Snapshot {
  public:
    static constexpr size_t num_readers = 2;  // checkpoints, and versions that are published

    explicit Snapshot(const Records& records) : records_(records), readers_{Changes(records), Changes(records)} {}

    // A store that nobody asked to track its changes asks no more than this.
    bool tracking() const { return tracking_; }
    bool active() const { return active_; }
    size_t kept_bytes() const { return num_kept_ * records_.stride(); }

    size_t resident_bytes() const {
        size_t bytes = pending_.resident_bytes() + kept_.size() * kept_rows * records_.stride();
        for (const Changes& changes : readers_) bytes += changes.resident_bytes();
        return bytes;
    }

    // How many rows a snapshot for a reader would be of.
    size_t pending(size_t reader, size_t all) const { return readers_[reader].known() ? readers_[reader].count() : all; }

    // Begins a snapshot: of all rows, or of those changed since the one before for the same reader. Returns whether it is of all,
    // which it is as long as changes are not known. Sets `gone` to the keys evicted since the one before; some may have rows again.
    bool begin(bool full, size_t reader, std::vector<uint64_t>& gone) {
        full = full || !readers_[reader].known();
        pending_.words().clear();
        readers_[reader].turn(pending_, gone);
        if (full) {
            std::vector<uint64_t>& words = pending_.words();
            words.resize((size_t{records_.end()} + 63) / 64);
            for (size_t i = 0; i < words.size(); ++i) words[i] = records_.live_word(i);
            gone.clear();
        }
        cursor_ = 0;
        reader_ = reader;
        tracking_ = active_ = true;
        return full;
    }

    // Gives up: what was pending is unknown from now on, so that the next snapshot for its reader is of all rows.
    void cancel() {
        if (active_) readers_[reader_].forget();
        finish();
    }

    // Copies up to n records that are still to be taken; 0 when all are, which ends the snapshot.
    size_t take(size_t n, uint8_t* to) {
        if (!active_) return 0;
        size_t taken = take_kept(n, to);
        taken += take_pending(n - taken, to + taken * records_.stride());
        if (taken == 0) finish();
        return taken;
    }

    void writing(Row row) {
        created(row);
        if (active_ && pending_.test(row)) keep(row);
    }

    void created(Row row) {
        for (Changes& changes : readers_)
            if (changes.tracking()) changes.changed(row);
    }

    void evicting(Row row) {
        if (active_ && pending_.test(row)) keep(row);
        for (Changes& changes : readers_)
            if (changes.tracking()) changes.evicting(row);
    }

  private:
    static constexpr size_t kept_rows = 1024;
    static constexpr size_t ahead = 16;

    void keep(Row row) {
        const size_t stride = records_.stride();
        if (kept_.empty() || last_kept_ == kept_rows) {
            kept_.emplace_back(kept_rows * stride);
            last_kept_ = 0;
        }
        std::memcpy(kept_.back().data() + last_kept_++ * stride, records_.at(row), stride);
        ++num_kept_;
        pending_.clear(row);
    }

    size_t take_kept(size_t n, uint8_t* to) {
        const size_t stride = records_.stride();
        size_t taken = 0;
        while (!kept_.empty() && taken < n) {
            const size_t left = (kept_.size() == 1 ? last_kept_ : kept_rows) - first_kept_;
            const size_t some = std::min(left, n - taken);
            std::memcpy(to + taken * stride, kept_.front().data() + first_kept_ * stride, some * stride);
            taken += some;
            first_kept_ += some;
            if (some < left) break;
            kept_.pop_front();
            first_kept_ = 0;
        }
        num_kept_ -= taken;
        return taken;
    }

    size_t take_pending(size_t n, uint8_t* to) {
        std::vector<Row> rows;
        rows.reserve(n);
        std::vector<uint64_t>& words = pending_.words();
        for (; rows.size() < n && cursor_ < words.size(); cursor_ += words[cursor_] == 0)
            for (; rows.size() < n && words[cursor_]; words[cursor_] &= words[cursor_] - 1)
                rows.push_back(static_cast<Row>(cursor_ * 64 + static_cast<size_t>(__builtin_ctzll(words[cursor_]))));
        const size_t stride = records_.stride();
        for (size_t i = 0; i < rows.size(); ++i) {
            if (i + ahead < rows.size()) prefetch(records_.at(rows[i + ahead]), stride);
            std::memcpy(to + i * stride, records_.at(rows[i]), stride);
        }
        return rows.size();
    }

    void finish() {
        active_ = false;
        pending_.words() = {};
        kept_.clear();
        first_kept_ = num_kept_ = 0;
    }

    const Records& records_;
    Changes readers_[num_readers];
    bool tracking_ = false;         // for anybody
    bool active_ = false;
    size_t reader_ = 0;             // for whom the last snapshot is
    Marks pending_;                 // rows of this snapshot that are neither taken nor kept
    size_t cursor_ = 0;             // words of `pending_` before it are 0
    std::deque<std::vector<uint8_t>> kept_;  // records as they were, in pieces of kept_rows
    size_t first_kept_ = 0;                  // records taken of the first piece
    size_t last_kept_ = 0;                   // records in the last piece
    size_t num_kept_ = 0;
};

}  // namespace xpsql
