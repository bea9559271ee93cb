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

// Codes of a batch, and where the index of each goes: first slots with one value for each owner, then further values of owners.
// An owner is an example, or a group of examples with the same codes.
class Occurrences {
  public:
    Occurrences(const In& scalar, const In& bag, const In& bag_owner, size_t owners, const Out& scalar_index, const Out& bag_index)
        : owners_(owners), codes_(matrix<const int32_t>(scalar, "scalar", any_length, static_cast<int64_t>(owners))),
          index_(matrix<int32_t>(scalar_index, "scalar_index_out", static_cast<int64_t>(codes_.rows), static_cast<int64_t>(owners))),
          values_(view<int32_t>(bag, "bag")),
          value_owner_(view<int32_t>(bag_owner, "bag_example", {static_cast<int64_t>(values_.size)})),
          value_index_(view<int32_t>(bag_index, "bag_index_out", {static_cast<int64_t>(values_.size)})) {}

    size_t size() const { return codes_.rows * codes_.columns + values_.size; }

    void check(size_t num_codes) const {
        for (size_t slot = 0; slot < codes_.rows; ++slot)
            check_range(codes_[slot], codes_.columns, -1, num_codes, "codes of scalar");
        check_range(values_.data, values_.size, -1, num_codes, "codes of bag");
        check_range(value_owner_.data, value_owner_.size, 0, owners_, "bag_example");
    }

    template <class Count, class Clicks>
    void see(Stamps& stamps, Count count, Clicks clicks) const {
        for (size_t slot = 0; slot < codes_.rows; ++slot) stamps.see(codes_[slot], codes_.columns, index_[slot], count, clicks);
        stamps.see(values_.data, values_.size, value_index_.data, [&](size_t i) { return count(value_owner_[i]); },
                   [&](size_t i) { return clicks(value_owner_[i]); });
    }

    void mark_absent(uint32_t found) const {
        for (size_t slot = 0; slot < codes_.rows; ++slot) mark_absent(index_[slot], codes_.columns, found);
        mark_absent(value_index_.data, values_.size, found);
    }

  private:
    static void mark_absent(int32_t* index, size_t n, uint32_t found) {
        const auto absent = static_cast<int32_t>(found);
        for (size_t i = 0; i < n; ++i) index[i] = index[i] < 0 ? absent : index[i];
    }

    size_t owners_;
    Matrix<const int32_t> codes_;
    Matrix<int32_t> index_;
    Span<const int32_t> values_, value_owner_;
    Span<int32_t> value_index_;
};

class Deduplicator {
  public:
    explicit Deduplicator(size_t num_codes) : stamps_(num_codes) {}

    nb::tuple unique(const In& scalar, const In& bag, const In& bag_example, const In& positive, const Out& scalar_index,
                     const Out& bag_index) {
        const auto positives = view<uint8_t>(positive, "positive");
        const Occurrences own(scalar, bag, bag_example, positives.size, scalar_index, bag_index);
        {
            nb::gil_scoped_release unlocked;
            own.check(stamps_.num_codes());
            stamps_.begin(own.size());
            see_examples(own, positives);
            own.mark_absent(stamps_.found());
        }
        return found();
    }

    nb::tuple unique_of_groups(const In& common, const In& values, const In& value_group, const In& sizes, const In& clicks,
                               const Out& common_index, const Out& value_index, const In& scalar, const In& bag,
                               const In& bag_example, const In& positive, const Out& scalar_index, const Out& bag_index) {
        const auto examples = view<uint32_t>(sizes, "sizes");
        const auto clicked = view<uint32_t>(clicks, "clicks", {static_cast<int64_t>(examples.size)});
        const auto positives = view<uint8_t>(positive, "positive");
        const Occurrences shared(common, values, value_group, examples.size, common_index, value_index);
        const Occurrences own(scalar, bag, bag_example, positives.size, scalar_index, bag_index);
        {
            nb::gil_scoped_release unlocked;
            shared.check(stamps_.num_codes());
            own.check(stamps_.num_codes());
            stamps_.begin(shared.size() + own.size());
            shared.see(stamps_, [&](size_t i) { return examples[i]; }, [&](size_t i) { return clicked[i]; });
            see_examples(own, positives);
            shared.mark_absent(stamps_.found());
            own.mark_absent(stamps_.found());
        }
        return found();
    }

  private:
    void see_examples(const Occurrences& own, Span<const uint8_t> positives) {
        own.see(stamps_, [](size_t) { return 1u; }, [&](size_t i) { return uint32_t(positives[i] != 0); });
    }

    nb::tuple found() const {
        const size_t found = stamps_.found();
        Result<int32_t> distinct(found);
        Result<uint32_t> counts(found), clicks(found);
        stamps_.copy(distinct.data(), counts.data(), clicks.data());
        return nb::make_tuple(distinct.take(found), counts.take(found), clicks.take(found));
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
             "bag_index_out"_a)
        .def("unique_of_groups", &Deduplicator::unique_of_groups, "common"_a, "values"_a, "value_group"_a, "sizes"_a, "clicks"_a,
             "common_index_out"_a, "value_index_out"_a, "scalar"_a, "bag"_a, "bag_example"_a, "positive"_a, "scalar_index_out"_a,
             "bag_index_out"_a);
}

}  // namespace xpsql
