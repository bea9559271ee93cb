// How often features occur, slot by slot: exactly by the top bits of their keys, and by key as long as there are not too many.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "arrays.hpp"

namespace xpsql {

namespace {

class SlotCounts {
  public:
    static constexpr size_t buckets = 256;

    SlotCounts(const In& slots_in, size_t most) : most_(most), entries_(first_capacity) {
        const auto slots = view<uint16_t>(slots_in, "slots");
        if (most < 2) throw nb::value_error("most must be 2 at least");
        if (slots.size >= nowhere) throw nb::value_error("slots must be fewer than 65,535");
        places_.fill(nowhere);
        for (size_t i = 0; i < slots.size; ++i) places_[slots[i]] = static_cast<uint16_t>(i);
        counts_.resize(slots.size * buckets);
    }

    void add(const In& keys_in, const In& slots_in, const In& counts_in) {
        const auto keys = view<uint64_t>(keys_in, "keys");
        const auto slots = view<uint16_t>(slots_in, "slots");
        const auto counts = view<uint32_t>(counts_in, "counts");
        if (slots.size < keys.size || counts.size < keys.size) throw nb::value_error("slots and counts must be of all keys");
        nb::gil_scoped_release unlocked;
        for (size_t i = 0; i < keys.size; ++i) {
            const uint16_t place = places_[slots[i]];
            if (place == nowhere || !counts[i]) continue;
            counts_[place * buckets + (keys[i] >> 56)] += counts[i];
            count(keys[i], place, counts[i]);
        }
    }

    void merge(const In& buckets_in, const In& keys_in, const In& places_in, const In& counts_in) {
        const auto own = view<int64_t>(buckets_in, "buckets", {static_cast<int64_t>(counts_.size() / buckets), buckets});
        const auto keys = view<uint64_t>(keys_in, "keys");
        const auto size = static_cast<int64_t>(keys.size);
        const auto places = view<int64_t>(places_in, "places", {size}), counts = view<int64_t>(counts_in, "counts", {size});
        for (size_t i = 0; i < keys.size; ++i)
            if (static_cast<uint64_t>(places[i]) >= counts_.size() / buckets || counts[i] < 1)
                throw nb::value_error("places must be those of slots, and counts 1 at least");
        nb::gil_scoped_release unlocked;
        for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += own[i];
        for (size_t i = 0; i < keys.size; ++i) count(keys[i], static_cast<uint16_t>(places[i]), counts[i]);
    }

    // Buckets, and keys, places and counts, ascending by place and key.
    nb::tuple tally() const {
        Result<int64_t> own(counts_.size()), places(size_), counts(size_);
        Result<uint64_t> keys(size_);
        {
            nb::gil_scoped_release unlocked;
            std::copy(counts_.begin(), counts_.end(), own.data());
            std::vector<size_t> ends(counts_.size() + 1);  // by place and the top bits of keys, which are spread evenly
            for (const Entry& entry : entries_)
                if (entry.count) ++ends[bucket(entry) + 1];
            for (size_t i = 0; i < counts_.size(); ++i) ends[i + 1] += ends[i];
            std::vector<size_t> next(ends.begin(), ends.end());
            std::vector<std::pair<uint64_t, int64_t>> there(size_);
            for (const Entry& entry : entries_)
                if (entry.count) there[next[bucket(entry)]++] = {entry.key, entry.count};
            for (size_t at = 0; at < counts_.size(); ++at) {
                const auto begin = there.begin();
                std::sort(begin + static_cast<std::ptrdiff_t>(ends[at]), begin + static_cast<std::ptrdiff_t>(ends[at + 1]));
                for (size_t i = ends[at]; i < ends[at + 1]; ++i) {
                    keys[i] = there[i].first;
                    places[i] = static_cast<int64_t>(at / buckets);
                    counts[i] = there[i].second;
                }
            }
        }
        return nb::make_tuple(own.take(counts_.size()), keys.take(size_), places.take(size_), counts.take(size_));
    }

  private:
    struct Entry {
        uint64_t key = 0;
        uint32_t count = 0;  // 0 of a free place; the largest number stands for all beyond
        uint16_t place = 0;
    };
    static_assert(sizeof(Entry) == 16);  // four in a cache line

    static constexpr size_t first_capacity = size_t{1} << 12;
    static constexpr uint16_t nowhere = UINT16_MAX;

    void count(uint64_t key, uint16_t place, int64_t more) {
        Entry& found = at(key, place);
        if (!found.count) {
            found.key = key;
            found.place = place;
            ++size_;
        }
        found.count = static_cast<uint32_t>(std::min<int64_t>(found.count + more, UINT32_MAX));
        if (size_ > most_) {
            prune();
        } else if (2 * size_ > entries_.size()) {
            refill(kept(), 4 * entries_.size());
        }
    }

    Entry& at(uint64_t key, uint16_t place) {
        const size_t mask = entries_.size() - 1;
        size_t i = ((key ^ place) * 0x9E3779B97F4A7C15u) >> 20 & mask;
        while (entries_[i].count && (entries_[i].key != key || entries_[i].place != place)) i = (i + 1) & mask;
        return entries_[i];
    }

    static size_t bucket(const Entry& entry) { return entry.place * buckets + (entry.key >> 56); }

    std::vector<Entry> kept() const {
        std::vector<Entry> there;
        there.reserve(size_);
        for (const Entry& entry : entries_)
            if (entry.count) there.push_back(entry);
        return there;
    }

    // Forgets the rarest.
    void prune() {
        std::vector<Entry> there = kept();
        std::nth_element(there.begin(), there.begin() + static_cast<std::ptrdiff_t>(most_ / 2), there.end(),
                         [](const Entry& one, const Entry& other) {
                             if (one.count != other.count) return one.count > other.count;
                             return one.place != other.place ? one.place < other.place : one.key < other.key;
                         });
        there.resize(most_ / 2);
        refill(there, entries_.size());
    }

    void refill(const std::vector<Entry>& there, size_t capacity) {
        entries_.assign(capacity, Entry{});
        size_ = there.size();
        for (const Entry& entry : there) at(entry.key, entry.place) = entry;
    }

    size_t most_, size_ = 0;
    std::vector<Entry> entries_;
    std::array<uint16_t, size_t{1} << 16> places_;
    std::vector<int64_t> counts_;
};

}  // namespace

void bind_slot_counts(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<SlotCounts>(module, "SlotCounts")
        .def(nb::init<In, size_t>(), "slots"_a, "most"_a)
        .def("add", &SlotCounts::add, "keys"_a, "slots"_a, "counts"_a)
        .def("merge", &SlotCounts::merge, "buckets"_a, "keys"_a, "places"_a, "counts"_a)
        .def("tally", &SlotCounts::tally);
}

}  // namespace xpsql
