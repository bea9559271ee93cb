// Where rows differ from those before them.
#include <cstring>

#include "arrays.hpp"

namespace xpsql {

namespace {

void mark_changes(const In& codes, const Out& changed) {
    const auto marks = view<uint8_t>(changed, "changed");
    const auto own = view<int32_t>(codes, "codes", {static_cast<int64_t>(marks.size)});
    const nb::gil_scoped_release unlocked;
    for (size_t i = 1; i < own.size; ++i) marks[i] |= own[i] != own[i - 1];
}

void mark_bag_changes(const In& codes, const In& weights, const In& offsets, const Out& changed) {
    const auto marks = view<uint8_t>(changed, "changed");
    const auto values = view<int32_t>(codes, "codes");
    const auto numbers = view<float>(weights, "weights", {static_cast<int64_t>(values.size)});
    const auto ends = view<int64_t>(offsets, "offsets", {static_cast<int64_t>(marks.size) + 1});
    bool inside = true;
    {
        const nb::gil_scoped_release unlocked;
        for (size_t i = 0; i < marks.size && inside; ++i)
            inside = ends[i] >= 0 && ends[i] <= ends[i + 1] && static_cast<uint64_t>(ends[i + 1]) <= values.size;
        for (size_t i = 1; i < marks.size && inside; ++i) {
            const auto before = ends[i - 1], begin = ends[i], size = ends[i + 1] - begin;
            const auto bytes = static_cast<size_t>(size) * sizeof(int32_t);
            static_assert(sizeof(int32_t) == sizeof(float));
            marks[i] |= size != begin - before ||
                        (size > 0 && (std::memcmp(values.data + begin, values.data + before, bytes) != 0 ||
                                      std::memcmp(numbers.data + begin, numbers.data + before, bytes) != 0));
        }
    }
    if (!inside) throw nb::value_error("offsets must ascend and stay within codes");
}

}  // namespace

void bind_runs(nb::module_& module) {
    using namespace nb::literals;
    module.def("mark_changes", mark_changes, "codes"_a, "changed"_a);
    module.def("mark_bag_changes", mark_bag_changes, "codes"_a, "weights"_a, "offsets"_a, "changed"_a);
}

}  // namespace xpsql
