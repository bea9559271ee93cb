// Predictions as calibrators see them: their log odds, the curve fitted from earlier rows, and tallies in whole numbers.
#include <algorithm>
#include <cmath>
#include <optional>

#include <nanobind/stl/optional.h>

#include "arrays.hpp"

namespace xpsql {

namespace {

constexpr double unit = 4294967296.0;  // UNIT of training/metrics/calibrate.py

double sigmoid(double score) { return 1 / (1 + std::exp(-score)); }

// What is counted by place: rows, labels that are positive, and predictions in units, int64[3, places].
class Tally {
  public:
    explicit Tally(const std::optional<Out>& out, const char* name, size_t places) : places_(places) {
        if (out) data_ = view<int64_t>(*out, name, {3, static_cast<int64_t>(places)}).data;
    }

    explicit operator bool() const { return data_ != nullptr; }

    void add(size_t place, bool first, bool positive, double prediction) {
        data_[place] += first;
        data_[places_ + place] += positive;
        if (first) data_[2 * places_ + place] += std::llrint(prediction * unit);
    }

  private:
    int64_t* data_ = nullptr;
    size_t places_;
};

NumpyVector<float> calibrate(const In& labels_in, const In& predictions_in, const In& heights_in, const In& slopes_in,
                             const std::optional<In>& codes_in, const In& biases_in, float limit, float lowest, float highest, bool late,
                             const std::optional<Out>& bins_out, const std::optional<Out>& values_out) {
    const auto predictions = view<float>(predictions_in, "predictions");
    const auto n = static_cast<int64_t>(predictions.size);
    const auto labels = view<float>(labels_in, "labels", {n});
    const auto heights = view<float>(heights_in, "heights");
    const auto slopes = view<float>(slopes_in, "slopes", {static_cast<int64_t>(heights.size)});
    const auto biases = view<float>(biases_in, "biases");
    const int32_t* codes = codes_in ? view<int32_t>(*codes_in, "codes", {n}).data : nullptr;
    if (heights.size == 0) throw nb::value_error("heights must be some");
    Tally bins(bins_out, "bins", heights.size), values(values_out, "values", biases.size);
    Result<float> shown(predictions.size);
    {
        nb::gil_scoped_release unlocked;
        for (size_t i = 0; codes && i < predictions.size; ++i)
            if (static_cast<uint32_t>(codes[i]) >= biases.size) throw std::invalid_argument("codes must lie within biases");
        const float middle = static_cast<float>(heights.size) / 2, scale = middle / limit, last = static_cast<float>(heights.size - 1);
        for (size_t i = 0; i < predictions.size; ++i) {
            const float prediction = std::isnan(predictions[i]) ? 0.5f : predictions[i];  // the version fails later
            const float p = std::min(std::max(prediction, lowest), highest), score = std::log(p / (1 - p));
            const auto place = static_cast<size_t>(std::min(std::max(score * scale + middle, 0.0f), last));
            const float after = heights[place] + slopes[place] * score, bias = codes ? biases[codes[i]] : 0.0f;
            shown[i] = static_cast<float>(sigmoid(after + bias));
            const bool positive = labels[i] > 0, first = !late || !positive;
            if (bins) bins.add(place, first, positive, prediction);
            if (values && codes) values.add(codes[i], first, positive, bias == 0 ? shown[i] : sigmoid(after));
        }
    }
    return shown.take(predictions.size);
}

}  // namespace

void bind_calibrate(nb::module_& module) {
    using namespace nb::literals;
    module.def("calibrate", calibrate, "labels"_a, "predictions"_a, "heights"_a, "slopes"_a, "codes"_a.none(), "biases"_a, "limit"_a,
               "lowest"_a, "highest"_a, "late"_a, "bins"_a.none(), "values"_a.none());
}

}  // namespace xpsql
