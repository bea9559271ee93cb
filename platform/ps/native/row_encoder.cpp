// Bindings of RowEncoder: rows of requests as the arrays of a batch, for programs of JAX.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "request_rows.hpp"

namespace xpsql {

namespace {

constexpr int32_t nowhere = -1;  // until the number of keys is known

// Distinct keys, numbered as they come.
class Numbering {
  public:
    explicit Numbering(size_t most) {
        size_t places = 16;
        while (places < 2 * most) places *= 2;
        places_.assign(places, nowhere);
        keys_.reserve(most);
    }

    int32_t of(uint64_t key) {
        const size_t mask = places_.size() - 1;
        size_t at = key * 0x9E3779B97F4A7C15u >> 32 & mask;
        while (places_[at] != nowhere && keys_[static_cast<size_t>(places_[at])] != key) at = (at + 1) & mask;
        if (places_[at] == nowhere) {
            places_[at] = static_cast<int32_t>(keys_.size());
            keys_.push_back(key);
        }
        return places_[at];
    }

    const std::vector<uint64_t>& keys() const { return keys_; }

  private:
    std::vector<int32_t> places_;
    std::vector<uint64_t> keys_;
};

template <class T>
NumpyVector<T> taken(const std::vector<T>& values) {
    Result<T> out(values.size());
    std::copy(values.begin(), values.end(), out.data());
    return out.take(values.size());
}

// keys, scalar [lines][batch], bag_index, bag_example, bag_slot, bag_weight, dense [numbers][rows], dense_index
using Encoded = std::tuple<NumpyVector<uint64_t>, NumpyVector<int32_t>, NumpyVector<int32_t>, NumpyVector<int32_t>, NumpyVector<int32_t>,
                           NumpyVector<float>, NumpyVector<float>, NumpyVector<int32_t>>;

struct Arrays {
    std::vector<uint64_t> keys;
    std::vector<int32_t> scalar, bag_index, bag_example, bag_slot, dense_index;
    std::vector<float> bag_weight, dense;

    Encoded encoded() const {
        return {taken(keys), taken(scalar), taken(bag_index), taken(bag_example), taken(bag_slot), taken(bag_weight), taken(dense), taken(dense_index)};
    }
};

class RowEncoder {
  public:
    RowEncoder(const std::vector<Description>& described, std::optional<uint64_t> intercept)
        : columns_(parse(described)), names_(names_of(columns_)), intercept_(intercept) {}

    std::optional<Encoded> encode_arrow(const nb::tuple& capsules, const std::vector<size_t>& order, size_t batch) const {
        std::optional<Arrays> found;
        with_arrow(capsules, order, columns_, [&](const Features& features) { found = arrays(features, batch); });
        return found ? std::optional(found->encoded()) : std::nullopt;
    }

    std::optional<Encoded> encode_objects(const nb::list& rows, const nb::object& context, size_t batch) const {
        std::optional<Arrays> found;
        with_objects(rows, context, columns_, names_, [&](const Features& features) { found = arrays(features, batch); });
        return found ? std::optional(found->encoded()) : std::nullopt;
    }

  private:
    Arrays arrays(const Features& features, size_t batch) const {
        const size_t n = features.rows;
        if (n > batch) throw std::invalid_argument("a batch must have room for all rows");
        size_t most = columns_.size() + 1;
        for (const KeyColumn& column : features.categorical) most += column.keys.size();
        for (const BagColumn& bag : features.bags) most += bag.keys.size();
        for (const FeatureColumn& column : columns_) most += column.dim;
        Numbering numbering(most);
        Arrays found;
        found.scalar.assign((features.categorical.size() + intercept_.has_value()) * batch, nowhere);
        int32_t* line = found.scalar.data();
        for (const KeyColumn& column : features.categorical) {
            const bool one = column.keys.size() == 1;
            for (size_t b = 0; b < n; ++b) {
                if (!column.is_there(one ? 0 : b)) continue;
                line[b] = one && b ? line[0] : numbering.of(column.keys[b]);
            }
            line += batch;
        }
        if (intercept_) std::fill(line, line + n, numbering.of(*intercept_));
        for (size_t slot = 0; slot < features.bags.size(); ++slot) {
            const BagColumn& bag = features.bags[slot];
            const bool one = bag.ends.size() == 1;
            for (size_t b = 0; b < n; ++b)
                for (size_t i = one || b == 0 ? 0 : bag.ends[b - 1]; i < bag.ends[one ? 0 : b]; ++i) {
                    found.bag_index.push_back(numbering.of(bag.keys[i]));
                    found.bag_example.push_back(static_cast<int32_t>(b));
                    found.bag_slot.push_back(static_cast<int32_t>(slot));
                    found.bag_weight.push_back(bag.weights[i]);
                }
        }
        add_numbers(features, numbering, found);
        found.keys = numbering.keys();
        for (std::vector<int32_t>* index : {&found.scalar, &found.dense_index})
            std::replace(index->begin(), index->end(), nowhere, static_cast<int32_t>(found.keys.size()));
        return found;
    }

    void add_numbers(const Features& features, Numbering& numbering, Arrays& found) const {
        size_t number = 0;
        for (const FeatureColumn::Kind kind : {FeatureColumn::Kind::continuous, FeatureColumn::Kind::vector})
            for (const FeatureColumn& column : columns_) {
                if (column.kind != kind) continue;
                const std::vector<float>& values = features.numbers[number++].values;
                const bool one = values.size() == column.dim;
                for (size_t d = 0; d < column.dim; ++d) {
                    bool there = false;
                    for (size_t b = 0; b < features.rows; ++b) {
                        const float value = values[(one ? 0 : b) * column.dim + d];
                        there |= !std::isnan(value);
                        found.dense.push_back(value);
                    }
                    const uint64_t key = kind == FeatureColumn::Kind::continuous ? column.seed : xxh64::hash_int64(d, column.seed);
                    found.dense_index.push_back(there ? numbering.of(key) : nowhere);
                }
            }
    }

    std::vector<FeatureColumn> columns_;
    std::vector<nb::str> names_;
    std::optional<uint64_t> intercept_;
};

}  // namespace

void bind_row_encoder(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<RowEncoder>(module, "RowEncoder")
        .def(nb::init<const std::vector<Description>&, std::optional<uint64_t>>(), "columns"_a, "intercept"_a.none())
        .def("encode_arrow", &RowEncoder::encode_arrow, "capsules"_a, "order"_a, "batch"_a)
        .def("encode_objects", &RowEncoder::encode_objects, "rows"_a, "context"_a.none(), "batch"_a);
}

}  // namespace xpsql
