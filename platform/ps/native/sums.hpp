// Scores that are sums over an example's features: of weights times values and, of a factorization machine, of the products of
// their vectors. ML.PREDICT and the service add in the same order with this code, so that both give the same bits.
//
// Source of the products: Rendle, "Factorization Machines", ICDM 2010, lemma 3.1; of those by field: Juan et al., "Field-aware
// Factorization Machines for CTR Prediction", RecSys 2016, equation 4.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace xpsql {

enum class Link { identity, sigmoid, exponential };

constexpr float LIMIT_OF_LOGARITHMS = 20.0f;  // algorithms/losses.py

inline float linked(float score, Link link) {
    if (link == Link::identity) return score;
    if (link == Link::sigmoid) return static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(score))));
    const float within = std::min(std::max(score, -LIMIT_OF_LOGARITHMS), LIMIT_OF_LOGARITHMS);
    return std::isnan(score) ? score : static_cast<float>(std::exp(static_cast<double>(within)));
}

// How the values of a slot of several are joined; algorithms/layers/pooling.py.
enum class Pooling { sum, mean, root };

// What a value counts for: its weight, or its share where the slot's weights without sign are `total`.
inline float share(float weight, float total, Pooling pooling) {
    if (pooling == Pooling::sum) return weight;
    total = std::max(total, 1e-6f);  // SMALLEST
    return weight / (pooling == Pooling::mean ? total : std::sqrt(total));
}

class Sums {
  public:
    // labels: floats of a weight. dim: of a vector, 0 for none. fields: how many parts it has, one for each slot that it meets;
    // 0 where all slots meet the whole of it.
    Sums(size_t examples, size_t labels, size_t dim, size_t fields)
        : labels_(labels), dim_(dim), fields_(fields), totals_(examples * labels), vectors_(examples * (fields ? 0 : dim)),
          squares_(vectors_.size()), met_(examples * fields), joined_(fields) {}

    void add(size_t example, const float* weight, float value) {
        float* total = &totals_[example * labels_];
        for (size_t l = 0; l < labels_; ++l) total[l] += weight[l] * value;
    }

    // The vector of a feature. `alone`: its slot has no other feature and its value is 1; its memory is read until `finish`.
    void add_vector(size_t example, const float* vector, float value, size_t slot, bool alone) {
        if (fields_) return add_met(example, vector, value, slot, alone);
        float* sum = vectors_.data() + example * dim_;
        float* square = squares_.data() + example * dim_;
        for (size_t d = 0; d < dim_; ++d) {
            const float own = vector[d] * value;
            sum[d] += own;
            square[d] += own * own;
        }
    }

    // Writes float[examples][labels].
    void finish(Link link, float* out) const {
        const size_t examples = labels_ ? totals_.size() / labels_ : 0;
        for (size_t b = 0; b < examples; ++b) {
            const float products = fields_ ? meetings(&met_[b * fields_]) : pairs(b);
            for (size_t l = 0; l < labels_; ++l) out[b * labels_ + l] = linked(totals_[b * labels_ + l] + products, link);
        }
    }

  private:
    void add_met(size_t example, const float* vector, float value, size_t slot, bool alone) {
        const float*& met = met_[example * fields_ + slot];
        if (alone) {
            met = vector;
            return;
        }
        std::vector<float>& joined = joined_[slot];
        if (joined.empty()) joined.resize(met_.size() / fields_ * dim_);
        float* sum = &joined[example * dim_];
        for (size_t d = 0; d < dim_; ++d) sum[d] += vector[d] * value;
        met = sum;
    }

    float pairs(size_t example) const {
        float products = 0;
        for (size_t d = example * dim_; d < (example + 1) * dim_; ++d) products += vectors_[d] * vectors_[d] - squares_[d];
        return 0.5f * products;
    }

    float meetings(const float* const* slots) const {
        const size_t part = dim_ / fields_;
        float products = 0;
        for (size_t i = 0; i < fields_; ++i) {
            if (!slots[i]) continue;
            for (size_t j = i + 1; j < fields_; ++j) {
                if (!slots[j]) continue;
                const float *own = slots[i] + j * part, *other = slots[j] + i * part;
                for (size_t d = 0; d < part; ++d) products += own[d] * other[d];
            }
        }
        return products;
    }

    size_t labels_, dim_, fields_;
    std::vector<float> totals_, vectors_, squares_;
    std::vector<const float*> met_;           // [examples][fields]
    std::vector<std::vector<float>> joined_;  // by slot [examples][dim], where it has several features
};

Link link_named(const std::string& name);
Pooling pooling_named(const std::string& name);

}  // namespace xpsql
