// The columns of requests as Python describes them, and the features of their rows, from Arrow's memory or from dicts.
#pragma once

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "object_features.hpp"

namespace xpsql {

// native kind, name, type, seed, hashed, raw, null_is_feature, dim, mean, deviation
using Description = std::tuple<std::string, std::string, std::string, uint64_t, bool, bool, bool, size_t, double, double>;

// Kind.native of platform/input/kinds.
inline FeatureColumn::Kind kind_named(const std::string& name) {
    using Kind = FeatureColumn::Kind;
    if (name == "categorical") return Kind::categorical;
    if (name == "multi") return Kind::multi;
    if (name == "weighted") return Kind::weighted;
    if (name == "continuous") return Kind::continuous;
    if (name == "vector") return Kind::vector;
    throw nb::value_error(("there is no kind of column " + name).c_str());
}

inline std::vector<FeatureColumn> parse(const std::vector<Description>& described) {
    std::vector<FeatureColumn> columns;
    for (const auto& [kind, name, type, seed, hashed, raw, null_is_feature, dim, mean, deviation] : described) {
        if (type.size() != 1 || dim == 0) throw nb::value_error("a column has a type of one letter and a dim of 1 or more");
        columns.push_back({kind_named(kind), name, type[0], seed, hashed, raw, null_is_feature, dim, mean, deviation});
    }
    return columns;
}

inline std::vector<nb::str> names_of(const std::vector<FeatureColumn>& columns) {
    std::vector<nb::str> names;
    for (const FeatureColumn& column : columns) names.emplace_back(column.name.c_str(), column.name.size());
    return names;
}

// Calls with(features) without the GIL for the rows of a record batch; not where a column has a type that is read elsewhere.
template <class With>
void with_arrow(const nb::tuple& capsules, const std::vector<size_t>& order, const std::vector<FeatureColumn>& columns, With with) {
    const auto* schema = static_cast<const ArrowSchema*>(PyCapsule_GetPointer(capsules[0].ptr(), "arrow_schema"));
    const auto* array = static_cast<const ArrowArray*>(PyCapsule_GetPointer(capsules[1].ptr(), "arrow_array"));
    if (!schema || !array) throw nb::python_error();
    if (order.size() != columns.size()) throw nb::value_error("order must name a column of the batch for each of ours");
    for (const size_t child : order)
        if (child >= static_cast<size_t>(array->n_children)) throw nb::index_error("order leaves the columns of the batch");
    nb::gil_scoped_release unlocked;
    try {
        with(arrow_features(*schema, *array, columns, order));
    } catch (const Unsupported&) {
    }
}

// The same for dicts; not where a value is not of its column's own type, or missing.
template <class With>
void with_objects(const nb::list& rows, const nb::object& context, const std::vector<FeatureColumn>& columns,
                  const std::vector<nb::str>& names, With with) {
    std::vector<PyObject*> found;
    found.reserve(nb::len(rows));
    for (const nb::handle row : rows) {
        if (!PyDict_CheckExact(row.ptr())) return;
        found.push_back(row.ptr());
    }
    if (!context.is_none() && !PyDict_CheckExact(context.ptr())) return;
    try {
        const Features features =
            from_objects::features(found.data(), found.size(), context.is_none() ? nullptr : context.ptr(), columns, names);
        nb::gil_scoped_release unlocked;
        with(features);
    } catch (const Unsupported&) {
    }
}

}  // namespace xpsql
