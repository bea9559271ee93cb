// Scores that are sums over an example's features: of weights times values and, of a factorization machine, of the products of
// their vectors. ML.PREDICT and the service add in the same order with this code, so that both give the same bits.
//
// Source of the products: Rendle, "Factorization Machines", ICDM 2010, lemma 3.1.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

namespace xpsql {

enum class Link { identity, sigmoid };

inline float linked(float score, Link link) {
    return link == Link::identity ? score : static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(score))));
}

class Sums {
  public:
    // labels: floats of a weight. dim: of a vector, 0 for none.
    Sums(size_t examples, size_t labels, size_t dim)
        : labels_(labels), dim_(dim), totals_(examples * labels), vectors_(examples * dim), squares_(examples * dim) {}

    void add(size_t example, const float* weight, float value) {
        float* total = &totals_[example * labels_];
        for (size_t l = 0; l < labels_; ++l) total[l] += weight[l] * value;
    }

    void add_vector(size_t example, const float* vector, float value) {
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
            float products = 0;
            for (size_t d = b * dim_; d < (b + 1) * dim_; ++d) products += vectors_[d] * vectors_[d] - squares_[d];
            for (size_t l = 0; l < labels_; ++l) out[b * labels_ + l] = linked(totals_[b * labels_ + l] + 0.5f * products, link);
        }
    }

  private:
    size_t labels_, dim_;
    std::vector<float> totals_, vectors_, squares_;
};

}  // namespace xpsql
