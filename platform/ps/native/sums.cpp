// Bindings of scores that are sums, over rows that were pulled.
#include "sums.hpp"

#include <nanobind/stl/string.h>

#include "arrays.hpp"

namespace xpsql {

Link link_named(const std::string& name) {
    if (name == "identity") return Link::identity;
    if (name == "sigmoid") return Link::sigmoid;
    if (name == "exponential") return Link::exponential;
    throw nb::value_error(("a link is identity, sigmoid or exponential, got " + name).c_str());
}

Pooling pooling_named(const std::string& name) {
    if (name == "sum") return Pooling::sum;
    if (name == "mean") return Pooling::mean;
    if (name == "root") return Pooling::root;
    throw nb::value_error(("a pooling is sum, mean or root, got " + name).c_str());
}

namespace {

struct Rows {
    Span<const float> values;
    size_t rows = 0, dim = 0;
    In array;

    Rows() = default;
    Rows(const In& given, const char* name) : array(given) {
        values = view<float>(array, name, {any_length, any_length});
        rows = array.shape(0);
        dim = array.shape(1);
    }
    const float* at(int32_t row) const { return values.data + static_cast<size_t>(row) * dim; }
};

void check_within(Span<const int32_t> index, size_t end, const char* name) {
    bool inside = true;
    for (size_t i = 0; i < index.size; ++i) inside &= static_cast<uint32_t>(index[i]) < end;
    if (!inside) throw nb::index_error((std::string(name) + " leaves the rows").c_str());
}

// Values of multi-valued and weighted slots, and what each counts for; values of an example keep their order.
std::vector<float> shares(Span<const int32_t> example, Span<const int32_t> slot, Span<const float> weight, size_t batch, size_t slots,
                          Pooling pooling) {
    std::vector<float> found(weight.data, weight.data + weight.size);
    if (pooling == Pooling::sum) return found;
    std::vector<float> totals(batch * slots);
    const auto total = [&](size_t i) -> float& { return totals[static_cast<size_t>(example[i]) * slots + static_cast<size_t>(slot[i])]; };
    for (size_t i = 0; i < weight.size; ++i) total(i) += std::abs(weight[i]);
    for (size_t i = 0; i < weight.size; ++i) found[i] = share(weight[i], total(i), pooling);
    return found;
}

nb::ndarray<nb::numpy, float, nb::ndim<2>> score_sums(const In& weights_in, const nb::object& vectors_in, const In& scalar_in,
                                                      bool intercept, const In& bag_index_in, const In& bag_example_in,
                                                      const In& bag_slot_in, const In& bag_weight_in, size_t bags, const In& dense_in,
                                                      const In& dense_index_in, const In& dense_slot_in, const std::string& link_name,
                                                      const std::string& pooling_name, size_t fields) {
    const Link link = link_named(link_name);
    const Pooling pooling = pooling_named(pooling_name);
    const Rows weights(weights_in, "weights"), vectors = vectors_in.is_none() ? Rows() : Rows(nb::cast<In>(vectors_in), "vectors");
    const auto scalar = view<int32_t>(scalar_in, "scalar", {any_length, any_length});
    const size_t lines = scalar_in.shape(0), batch = scalar_in.shape(1), own = lines - (intercept && lines);
    const auto bag_index = view<int32_t>(bag_index_in, "bag_index");
    const auto values = static_cast<int64_t>(bag_index.size);
    const auto bag_example = view<int32_t>(bag_example_in, "bag_example", {values});
    const auto bag_slot = view<int32_t>(bag_slot_in, "bag_slot", {values});
    const auto bag_weight = view<float>(bag_weight_in, "bag_weight", {values});
    const auto dense_index = view<int32_t>(dense_index_in, "dense_index");
    const auto columns = static_cast<int64_t>(dense_index.size);
    const auto dense_slot = view<int32_t>(dense_slot_in, "dense_slot", {columns});
    const auto dense = view<float>(dense_in, "dense", {static_cast<int64_t>(batch), columns});
    const size_t rows = vectors.dim ? std::min(weights.rows, vectors.rows) : weights.rows;
    check_within(scalar, rows, "scalar");
    check_within(bag_index, rows, "bag_index");
    check_within(dense_index, rows, "dense_index");
    check_within(bag_example, batch, "bag_example");
    check_within(bag_slot, bags, "bag_slot");
    if (fields) {
        if (vectors.dim % fields || own + bags > fields) throw nb::value_error("a vector must have a part for each slot");
        check_within(dense_slot, fields - own - bags, "dense_slot");
    }
    Result<float> out(product(batch, weights.dim));
    {
        nb::gil_scoped_release unlocked;
        Sums sums(batch, weights.dim, vectors.dim, fields);
        const auto add = [&](size_t example, int32_t row, float value, size_t slot, bool alone, bool meets) {
            sums.add(example, weights.at(row), value);
            if (meets && vectors.dim) sums.add_vector(example, vectors.at(row), value, slot, alone);
        };
        for (size_t l = 0; l < lines; ++l)
            for (size_t b = 0; b < batch; ++b) add(b, scalar[l * batch + b], 1, l, true, l < own);
        const std::vector<float> counted = shares(bag_example, bag_slot, bag_weight, batch, bags, pooling);
        for (size_t i = 0; i < bag_index.size; ++i)
            add(static_cast<size_t>(bag_example[i]), bag_index[i], counted[i], own + static_cast<size_t>(bag_slot[i]), false, true);
        for (size_t b = 0; b < batch; ++b)
            for (size_t c = 0; c < dense_index.size; ++c)
                add(b, dense_index[c], dense[b * dense_index.size + c], own + bags + static_cast<size_t>(dense_slot[c]), false, true);
        sums.finish(link, out.data());
    }
    auto flat = out.take(batch * weights.dim);
    return nb::ndarray<nb::numpy, float, nb::ndim<2>>(flat.data(), {batch, weights.dim}, nb::cast(flat));
}

}  // namespace

void bind_sums(nb::module_& module) {
    using namespace nb::literals;
    module.def("score_sums", score_sums, "weights"_a, "vectors"_a.none(), "scalar"_a, "intercept"_a, "bag_index"_a, "bag_example"_a,
               "bag_slot"_a, "bag_weight"_a, "bags"_a, "dense"_a, "dense_index"_a, "dense_slot"_a, "link"_a, "pooling"_a, "fields"_a);
}

}  // namespace xpsql
