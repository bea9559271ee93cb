// The features of some rows as a scorer takes them: keys column by column, and numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "image.hpp"
#include "sums.hpp"
#include "xxh64.hpp"

namespace xpsql {

// A column of a model. platform/input/columns.py has the kinds; `hashed`, and the meaning of NULL, are as in
// platform/input/encode.py.
struct FeatureColumn {
    enum class Kind { categorical, multi, weighted, continuous, vector };

    Kind kind;
    std::string name;
    char type;       // of values, elements or keys: s(tring), b(oolean), d(ate), integers of 8, 4, 2 bytes and 1: l, i, h, c; f(loat)
    uint64_t seed;   // of the slot whose rows it uses
    bool hashed;
    bool raw;        // ready-made ids are keys
    bool null_is_feature;
    size_t dim = 1;  // of a vector
    double mean = 0, deviation = 1;
};

// The key of a ready-made id; platform/ps/keys.py has its inverse.
inline uint64_t raw_key(uint64_t id) {
    id = (id ^ (id >> 33)) * 0xFF51AFD7ED558CCDu;
    id = (id ^ (id >> 33)) * 0xC4CEB9FE1A85EC53u;
    return id ^ (id >> 33);
}

// Keys of a categorical column: one for each row, or one for all.
struct KeyColumn {
    std::vector<uint64_t> keys;
    std::vector<uint8_t> there;  // empty: all are

    bool is_there(size_t i) const { return there.empty() || there[i]; }
    void push(uint64_t key) {
        keys.push_back(key);
        if (!there.empty()) there.push_back(1);
    }
    void push_absent() {
        if (there.empty()) there.assign(keys.size(), 1);
        keys.push_back(0);
        there.push_back(0);
    }
};

// Values of a multi-valued or weighted column: row i's are ends[i - 1] to ends[i].
struct BagColumn {
    std::vector<uint64_t> keys;
    std::vector<float> weights;
    std::vector<size_t> ends;
};

// Numbers of a continuous column or a vector, [rows][dim], NaN where absent.
struct NumberColumn {
    std::vector<float> values;
};

struct Features {
    size_t rows = 0;
    std::vector<KeyColumn> categorical;
    std::vector<BagColumn> bags;
    std::vector<NumberColumn> numbers;
};

constexpr double most_deviations = 8;  // LIMIT of platform/input/scaling.py

inline float standardised(float value, const FeatureColumn& column) {
    if (column.kind == FeatureColumn::Kind::vector) return std::isfinite(value) ? value : 0;
    const double scaled = (static_cast<double>(value) - column.mean) / column.deviation;
    if (std::isnan(scaled)) return 0;
    return static_cast<float>(std::min(std::max(scaled, -most_deviations), most_deviations));
}

// Where rows are, and which of their floats.
struct RowPart {
    Layers layers;
    size_t first = 0, floats = 0;
};

// A linear model or factorization machine over images, and the rows that are the same in every example.
class FeatureScorer {
  public:
    // vectors: none where they have no floats. `joined`: these are in the same rows as the weights.
    FeatureScorer(std::vector<FeatureColumn> columns, RowPart weights, RowPart vectors, bool joined, bool intercept, uint64_t intercept_key,
                  Link link, Pooling pooling, size_t fields)
        : columns_(std::move(columns)), weights_(weights), vectors_(vectors), joined_(joined), link_(link), pooling_(pooling), fields_(fields) {
        for (const RowPart& part : {weights_, vectors_})
            if (part.floats > part.layers.width() || part.first > part.layers.width() - part.floats)
                throw std::invalid_argument("a row must have the floats of weights and vectors");
        if (fields && (fields != columns_.size() || !vectors_.floats || vectors_.floats % fields))
            throw std::invalid_argument("a vector must have a part for each slot");
        if (intercept) intercept_ = weights_.layers.row(intercept_key);
        for (const FeatureColumn::Kind kind : {FeatureColumn::Kind::continuous, FeatureColumn::Kind::vector})
            for (const FeatureColumn& column : columns_)
                if (column.kind == kind)
                    for (size_t d = 0; d < column.dim; ++d) {
                        const bool one = kind == FeatureColumn::Kind::continuous;
                        const uint64_t key = one ? column.seed : xxh64::hash_int64(d, column.seed);
                        dense_.push_back({weights_.layers.row(key), vectors_.floats ? vectors_.layers.row(key) : std::vector<float>()});
                    }
    }

    const std::vector<FeatureColumn>& columns() const { return columns_; }
    size_t labels() const { return weights_.floats; }

    // Writes float[rows][labels]. In each example: categorical columns, the intercept, multi-valued ones, numbers.
    void score(const Features& features, float* out) const {
        const size_t n = features.rows;
        Sums sums(n, labels(), vectors_.floats, fields_);
        std::vector<float> rooms[4];  // which `sums` may read
        std::vector<uint64_t> keys;
        for (const KeyColumn& column : features.categorical) keys.insert(keys.end(), column.keys.begin(), column.keys.end());
        add_rows(sums, keys, rooms, [&columns = features.categorical, n, slot = size_t{0}, at = size_t{0}]() mutable {
            while (at == columns[slot].keys.size()) at = 0, ++slot;
            const KeyColumn& column = columns[slot];
            const size_t b = at++, end = column.keys.size() == 1 ? n : b + 1;
            return Use{b, column.is_there(b) ? end : b, 1, slot, true};
        });
        if (!intercept_.empty())
            for (size_t b = 0; b < n; ++b) sums.add(b, intercept_.data() + weights_.first, 1);
        keys.clear();
        std::vector<float> counted;
        for (const BagColumn& bag : features.bags) {
            keys.insert(keys.end(), bag.keys.begin(), bag.keys.end());
            add_shares(bag, counted);
        }
        add_rows(sums, keys, rooms + 2,
                 [&, first = features.categorical.size(), slot = size_t{0}, at = size_t{0}, b = size_t{0}, value = counted.data()]() mutable {
                     while (at == features.bags[slot].keys.size()) at = b = 0, ++slot;
                     const std::vector<size_t>& ends = features.bags[slot].ends;
                     while (at == ends[b]) ++b;
                     ++at;
                     return ends.size() == 1 ? Use{0, n, *value++, first + slot, false} : Use{b, b + 1, *value++, first + slot, false};
                 });
        size_t slot = features.categorical.size() + features.bags.size();
        size_t at = 0, number = 0;
        for (const FeatureColumn::Kind kind : {FeatureColumn::Kind::continuous, FeatureColumn::Kind::vector})
            for (const FeatureColumn& column : columns_) {
                if (column.kind != kind) continue;
                const std::vector<float>& values = features.numbers[number++].values;
                const bool one = values.size() == column.dim;
                for (size_t b = 0; b < n; ++b)
                    for (size_t d = 0; d < column.dim; ++d) {
                        const float value = standardised(values[(one ? 0 : b) * column.dim + d], column);
                        const Fixed& own = dense_[at + d];
                        sums.add(b, own.weight.data() + weights_.first, value);
                        if (vectors_.floats) sums.add_vector(b, own.vector.data() + vectors_.first, value, slot, false);
                    }
                at += column.dim;
                ++slot;
            }
        sums.finish(link_, out);
    }

  private:
    // What a row is added to: the examples first to last - 1.
    struct Use {
        size_t first, last;
        float value;
        size_t slot;
        bool alone;
    };
    struct Fixed {
        std::vector<float> weight, vector;  // whole rows
    };

    // Adds the rows of keys; next() tells the use of the next one.
    template <class Next>
    void add_rows(Sums& sums, const std::vector<uint64_t>& keys, std::vector<float>* rooms, Next next) const {
        Next again = next;
        rooms[0].resize(weights_.layers.room(keys.size()));
        weights_.layers.find(keys.data(), keys.size(), rooms[0].data(), [&](size_t, const float* row) {
            const Use use = next();
            for (size_t b = use.first; b < use.last; ++b) {
                sums.add(b, row + weights_.first, use.value);
                if (joined_ && vectors_.floats) sums.add_vector(b, row + vectors_.first, use.value, use.slot, use.alone);
            }
        });
        if (joined_ || !vectors_.floats) return;
        rooms[1].resize(vectors_.layers.room(keys.size()));
        vectors_.layers.find(keys.data(), keys.size(), rooms[1].data(), [&](size_t, const float* row) {
            const Use use = again();
            for (size_t b = use.first; b < use.last; ++b)
                sums.add_vector(b, row + vectors_.first, use.value, use.slot, use.alone);
        });
    }

    // Adds what each value of a column counts for.
    void add_shares(const BagColumn& bag, std::vector<float>& counted) const {
        size_t begin = 0;
        for (const size_t end : bag.ends) {
            float total = 0;
            for (size_t i = begin; i < end; ++i) total += std::abs(bag.weights[i]);
            for (size_t i = begin; i < end; ++i) counted.push_back(share(bag.weights[i], total, pooling_));
            begin = end;
        }
    }

    std::vector<FeatureColumn> columns_;
    RowPart weights_, vectors_;
    bool joined_;
    std::vector<float> intercept_;  // a whole row; none without an intercept
    Link link_;
    Pooling pooling_;
    size_t fields_;
    std::vector<Fixed> dense_;
};

// "false" and "true", as CAST AS STRING writes them.
inline uint64_t boolean_key(bool value, uint64_t seed) {
    const char* text = value ? "true" : "false";
    return xxh64::hash_bytes(reinterpret_cast<const uint8_t*>(text), value ? 4 : 5, seed);
}

}  // namespace xpsql
