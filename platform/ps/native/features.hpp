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

// A column of a model. platform/input/columns.py has the kinds; `hashed`, and what a NULL is, are those of platform/input/encode.py.
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

// Values of a multi-valued or weighted column: those of row i are ends[i - 1] to ends[i].
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

// A linear model or factorization machine over images, and the rows that are the same in every example.
class FeatureScorer {
  public:
    FeatureScorer(std::vector<FeatureColumn> columns, const Image& weights, const Image* vectors, bool intercept, uint64_t intercept_key,
                  Link link, Pooling pooling, size_t fields)
        : columns_(std::move(columns)), weights_(weights), vectors_(vectors), intercept_(intercept ? weights.find(intercept_key) : nullptr),
          link_(link), pooling_(pooling), fields_(fields) {
        if (fields && (fields != columns_.size() || !vectors || vectors->dim() % fields))
            throw std::invalid_argument("a vector must have a part for each slot");
        for (const FeatureColumn::Kind kind : {FeatureColumn::Kind::continuous, FeatureColumn::Kind::vector})
            for (const FeatureColumn& column : columns_)
                if (column.kind == kind)
                    for (size_t d = 0; d < column.dim; ++d) {
                        const bool one = kind == FeatureColumn::Kind::continuous;
                        const uint64_t key = one ? column.seed : xxh64::hash_int64(d, column.seed);
                        dense_.push_back({weights_.find(key), vectors_ ? vectors_->find(key) : nullptr});
                    }
    }

    const std::vector<FeatureColumn>& columns() const { return columns_; }
    size_t labels() const { return weights_.dim(); }

    // Writes float[rows][labels]. In each example: categorical columns, the intercept, multi-valued ones, numbers.
    void score(const Features& features, float* out) const {
        const size_t n = features.rows;
        Sums sums(n, labels(), vectors_ ? vectors_->dim() : 0, fields_);
        std::vector<const float*> weights, vectors;
        size_t slot = 0;
        for (const KeyColumn& column : features.categorical) {
            find(column.keys, weights, vectors);
            const bool one = column.keys.size() == 1;
            for (size_t b = 0; b < n; ++b) {
                const size_t at = one ? 0 : b;
                if (column.is_there(at)) add(sums, b, weights[at], vectors_ ? vectors[at] : nullptr, 1, slot, true);
            }
            ++slot;
        }
        if (intercept_)
            for (size_t b = 0; b < n; ++b) sums.add(b, intercept_, 1);
        std::vector<float> counted;
        for (const BagColumn& bag : features.bags) {
            find(bag.keys, weights, vectors);
            shares(bag, counted);
            const bool one = bag.ends.size() == 1;
            for (size_t b = 0; b < n; ++b)
                for (size_t i = one || b == 0 ? 0 : bag.ends[b - 1]; i < bag.ends[one ? 0 : b]; ++i)
                    add(sums, b, weights[i], vectors_ ? vectors[i] : nullptr, counted[i], slot, false);
            ++slot;
        }
        size_t at = 0, number = 0;
        for (const FeatureColumn::Kind kind : {FeatureColumn::Kind::continuous, FeatureColumn::Kind::vector})
            for (const FeatureColumn& column : columns_) {
                if (column.kind != kind) continue;
                const std::vector<float>& values = features.numbers[number++].values;
                const bool one = values.size() == column.dim;
                for (size_t b = 0; b < n; ++b)
                    for (size_t d = 0; d < column.dim; ++d) {
                        const float value = standardised(values[(one ? 0 : b) * column.dim + d], column);
                        add(sums, b, dense_[at + d].weight, dense_[at + d].vector, value, slot, false);
                    }
                at += column.dim;
                ++slot;
            }
        sums.finish(link_, out);
    }

  private:
    struct Fixed {
        const float *weight, *vector;
    };

    void find(const std::vector<uint64_t>& keys, std::vector<const float*>& weights, std::vector<const float*>& vectors) const {
        weights.resize(keys.size());
        weights_.find(keys.data(), keys.size(), weights.data());
        if (!vectors_) return;
        vectors.resize(keys.size());
        vectors_->find(keys.data(), keys.size(), vectors.data());
    }

    // What each value of a column counts for.
    void shares(const BagColumn& bag, std::vector<float>& counted) const {
        counted = bag.weights;
        if (pooling_ == Pooling::sum) return;
        size_t begin = 0;
        for (const size_t end : bag.ends) {
            float total = 0;
            for (size_t i = begin; i < end; ++i) total += std::abs(bag.weights[i]);
            for (size_t i = begin; i < end; ++i) counted[i] = share(bag.weights[i], total, pooling_);
            begin = end;
        }
    }

    static void add(Sums& sums, size_t example, const float* weight, const float* vector, float value, size_t slot, bool alone) {
        sums.add(example, weight, value);
        if (vector) sums.add_vector(example, vector, value, slot, alone);
    }

    std::vector<FeatureColumn> columns_;
    const Image& weights_;
    const Image* vectors_;
    const float* intercept_;
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
