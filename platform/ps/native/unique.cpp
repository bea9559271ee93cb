// Bindings of unique and Deduplicator.
#include "unique.hpp"

#include "arrays.hpp"

namespace xpsql {

namespace {

nb::tuple unique(const In& keys) {
    const auto all = view<uint64_t>(keys, "keys");
    if (all.size > INT32_MAX) throw nb::value_error("unique takes at most 2^31 - 1 keys");
    Result<uint64_t> found(all.size);
    Result<int32_t> inverse(all.size);
    size_t count;
    {
        nb::gil_scoped_release unlocked;
        count = find_unique(all.data, all.size, found.data(), inverse.data());
    }
    return nb::make_tuple(found.take(count), inverse.take(all.size));
}

// A matrix whose rows may lie apart, as a range of columns of a larger one does.
template <class T>
struct Matrix {
    T* data;
    size_t rows, columns;
    int64_t stride;

    T* operator[](size_t row) const { return data + static_cast<int64_t>(row) * stride; }
};

template <class T, class Array>
Matrix<T> matrix(const Array& array, const char* name, int64_t rows, int64_t columns) {
    const bool typed = array.dtype() == nb::dtype<std::remove_const_t<T>>();
    const bool fits = array.ndim() == 2 && (rows == any_length || static_cast<int64_t>(array.shape(0)) == rows) &&
                      static_cast<int64_t>(array.shape(1)) == columns &&
                      (columns <= 1 || array.size() == 0 || array.stride(1) == 1);
    if (!typed || !fits) refuse(name, describe(nb::dtype<std::remove_const_t<T>>(), {rows, columns}), describe(array), !typed);
    return {static_cast<T*>(array.data()), array.shape(0), array.shape(1), array.stride(0)};
}

void check_range(const int32_t* values, size_t n, int32_t least, size_t end, const char* name) {
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (size_t i = 0; i < n; ++i) {
        low = std::min(low, values[i]);
        high = std::max(high, values[i]);
    }
    if (n == 0 || (low >= least && static_cast<int64_t>(high) < static_cast<int64_t>(end))) return;
    const std::string message = std::string(name) + " must lie in [" + std::to_string(least) + ", " + std::to_string(end) +
                                "), got values from " + std::to_string(low) + " to " + std::to_string(high);
    throw std::invalid_argument(message);
}

class Deduplicator {
  public:
    explicit Deduplicator(size_t num_codes) : stamps_(num_codes) {}

    nb::tuple unique(const In& scalar, const In& bag, const In& bag_example, const In& positive, const Out& scalar_index,
                     const Out& bag_index) {
        const auto positives = view<uint8_t>(positive, "positive");
        const auto examples = static_cast<int64_t>(positives.size);
        const auto codes = matrix<const int32_t>(scalar, "scalar", any_length, examples);
        const auto code_index = matrix<int32_t>(scalar_index, "scalar_index_out", static_cast<int64_t>(codes.rows), examples);
        const auto values = view<int32_t>(bag, "bag");
        const auto num_values = static_cast<int64_t>(values.size);
        const auto value_example = view<int32_t>(bag_example, "bag_example", {num_values});
        const auto value_index = view<int32_t>(bag_index, "bag_index_out", {num_values});
        {
            nb::gil_scoped_release unlocked;
            for (size_t slot = 0; slot < codes.rows; ++slot)
                check_range(codes[slot], codes.columns, -1, stamps_.num_codes(), "codes of scalar");
            check_range(values.data, values.size, -1, stamps_.num_codes(), "codes of bag");
            check_range(value_example.data, value_example.size, 0, positives.size, "bag_example");
            stamps_.begin(codes.rows * codes.columns + values.size);
            for (size_t slot = 0; slot < codes.rows; ++slot)
                stamps_.see(codes[slot], codes.columns, code_index[slot], [&](size_t i) { return positives[i]; });
            stamps_.see(values.data, values.size, value_index.data, [&](size_t i) { return positives[value_example[i]]; });
            for (size_t slot = 0; slot < codes.rows; ++slot) mark_absent(code_index[slot], codes.columns);
            mark_absent(value_index.data, values.size);
        }
        const size_t found = stamps_.found();
        Result<int32_t> distinct(found);
        Result<uint32_t> counts(found), clicks(found);
        stamps_.copy(distinct.data(), counts.data(), clicks.data());
        return nb::make_tuple(distinct.take(found), counts.take(found), clicks.take(found));
    }

  private:
    void mark_absent(int32_t* index, size_t n) const {
        const auto absent = static_cast<int32_t>(stamps_.found());
        for (size_t i = 0; i < n; ++i) index[i] = index[i] < 0 ? absent : index[i];
    }

    Stamps stamps_;
};

}  // namespace

void bind_unique(nb::module_& module) {
    using namespace nb::literals;
    module.def("unique", unique, "keys"_a);
    nb::class_<Deduplicator>(module, "Deduplicator")
        .def(nb::init<size_t>(), "num_codes"_a)
        .def("unique", &Deduplicator::unique, "scalar"_a, "bag"_a, "bag_example"_a, "positive"_a, "scalar_index_out"_a,
             "bag_index_out"_a);
}

}  // namespace xpsql
