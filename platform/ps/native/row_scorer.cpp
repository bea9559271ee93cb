// Bindings of RowScorer: predictions of requests, from Arrow's memory or from dicts, without JAX.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "mapped.hpp"
#include "request_rows.hpp"

namespace xpsql {

namespace {

using Predictions = NumpyVector<float>;
// An image, and which floats of its rows.
using Part = std::tuple<nb::object, size_t, size_t>;

RowPart parsed(const Part& part) {
    const auto& [image, first, floats] = part;
    return {nb::cast<const MappedImage&>(image).layers(), first, floats};
}

class RowScorer {
  public:
    RowScorer(const std::vector<Description>& described, const Part& weights, const std::optional<Part>& vectors,
              std::optional<uint64_t> intercept, const std::string& link, const std::string& pooling, size_t fields)
        : weights_(std::get<0>(weights)), vectors_(vectors ? std::get<0>(*vectors) : weights_),
          scorer_(parse(described), parsed(weights), vectors ? parsed(*vectors) : RowPart{parsed(weights).layers, 0, 0},
                  vectors_.is(weights_), intercept.has_value(), intercept.value_or(0), link_named(link), pooling_named(pooling), fields),
          names_(names_of(scorer_.columns())) {}

    std::optional<Predictions> score_arrow(const nb::tuple& capsules, const std::vector<size_t>& order) const {
        std::optional<Scores> found;
        with_arrow(capsules, order, scorer_.columns(), [&](const Features& features) { found.emplace(scores(features)); });
        return taken(found);
    }

    std::optional<Predictions> score_objects(const nb::list& rows, const nb::object& context) const {
        std::optional<Scores> found;
        with_objects(rows, context, scorer_.columns(), names_, [&](const Features& features) { found.emplace(scores(features)); });
        return taken(found);
    }

  private:
    struct Scores {
        Result<float> values;
        size_t size;
    };

    Scores scores(const Features& features) const {
        const size_t size = product(features.rows, scorer_.labels());
        Scores found{Result<float>(size), size};
        scorer_.score(features, found.values.data());
        return found;
    }

    static std::optional<Predictions> taken(std::optional<Scores>& found) {
        return found ? std::optional(found->values.take(found->size)) : std::nullopt;
    }

    nb::object weights_, vectors_;  // whose memory the scorer reads
    FeatureScorer scorer_;
    std::vector<nb::str> names_;
};

}  // namespace

void bind_row_scorer(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<RowScorer>(module, "RowScorer")
        .def(nb::init<const std::vector<Description>&, const Part&, const std::optional<Part>&, std::optional<uint64_t>, const std::string&,
                      const std::string&, size_t>(),
             "columns"_a, "weights"_a, "vectors"_a.none(), "intercept"_a.none(), "link"_a, "pooling"_a, "fields"_a)
        .def("score_arrow", &RowScorer::score_arrow, "capsules"_a, "order"_a)
        .def("score_objects", &RowScorer::score_objects, "rows"_a, "context"_a.none());
}

}  // namespace xpsql
