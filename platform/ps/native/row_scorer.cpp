// Bindings of RowScorer: predictions of requests, from Arrow's memory or from dicts, without JAX.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "mapped.hpp"
#include "object_features.hpp"

namespace xpsql {

namespace {

using Predictions = NumpyVector<float>;
// kind, name, type, seed, hashed, raw, null_is_feature, dim, mean, deviation
using Description = std::tuple<std::string, std::string, std::string, uint64_t, bool, bool, bool, size_t, double, double>;

FeatureColumn::Kind kind_named(const std::string& name) {
    using Kind = FeatureColumn::Kind;
    if (name == "categorical") return Kind::categorical;
    if (name == "multi-valued") return Kind::multi;
    if (name == "weighted") return Kind::weighted;
    if (name == "continuous") return Kind::continuous;
    if (name == "vector") return Kind::vector;
    throw nb::value_error(("there is no kind of column " + name).c_str());
}

std::vector<FeatureColumn> parse(const std::vector<Description>& described) {
    std::vector<FeatureColumn> columns;
    for (const auto& [kind, name, type, seed, hashed, raw, null_is_feature, dim, mean, deviation] : described) {
        if (type.size() != 1 || dim == 0) throw nb::value_error("a column has a type of one letter and a dim of 1 or more");
        columns.push_back({kind_named(kind), name, type[0], seed, hashed, raw, null_is_feature, dim, mean, deviation});
    }
    return columns;
}

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
                  vectors_.is(weights_), intercept.has_value(), intercept.value_or(0), link_named(link), pooling_named(pooling), fields) {
        for (const FeatureColumn& column : scorer_.columns()) {
            names_.emplace_back(column.name.c_str(), column.name.size());
        }
    }

    std::optional<Predictions> score_arrow(const nb::tuple& capsules, const std::vector<size_t>& order) const {
        const auto* schema = static_cast<const ArrowSchema*>(PyCapsule_GetPointer(capsules[0].ptr(), "arrow_schema"));
        const auto* array = static_cast<const ArrowArray*>(PyCapsule_GetPointer(capsules[1].ptr(), "arrow_array"));
        if (!schema || !array) throw nb::python_error();
        if (order.size() != scorer_.columns().size()) throw nb::value_error("order must name a column of the batch for each of ours");
        for (const size_t child : order)
            if (child >= static_cast<size_t>(array->n_children)) throw nb::index_error("order leaves the columns of the batch");
        Result<float> out(product(static_cast<size_t>(array->length), scorer_.labels()));
        {
            nb::gil_scoped_release unlocked;
            try {
                scorer_.score(arrow_features(*schema, *array, scorer_.columns(), order), out.data());
            } catch (const Unsupported&) {
                return std::nullopt;
            }
        }
        return out.take(static_cast<size_t>(array->length) * scorer_.labels());
    }

    std::optional<Predictions> score_objects(const nb::list& rows, const nb::object& context) const {
        std::vector<PyObject*> found;
        found.reserve(nb::len(rows));
        for (const nb::handle row : rows) {
            if (!PyDict_CheckExact(row.ptr())) return std::nullopt;
            found.push_back(row.ptr());
        }
        if (!context.is_none() && !PyDict_CheckExact(context.ptr())) return std::nullopt;
        try {
            const Features features = from_objects::features(found.data(), found.size(), context.is_none() ? nullptr : context.ptr(),
                                                             scorer_.columns(), names_);
            Result<float> out(product(found.size(), scorer_.labels()));
            {
                nb::gil_scoped_release unlocked;
                scorer_.score(features, out.data());
            }
            return out.take(found.size() * scorer_.labels());
        } catch (const Unsupported&) {
            return std::nullopt;
        }
    }

  private:
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
