// Bindings of Counter.
#include "counter.hpp"

#include <nanobind/stl/tuple.h>

#include "arrays.hpp"

namespace xpsql {

namespace {

NumpyVector<uint32_t> counts(const Counter& counter, const In& keys) {
    const auto all = view<uint64_t>(keys, "keys");
    Result<uint32_t> found(all.size);
    {
        nb::gil_scoped_release unlocked;
        for (size_t i = 0; i < all.size; ++i) found[i] = counter.find(all[i]);
    }
    return found.take(all.size);
}

void add(Counter& counter, const In& keys, const In& amounts) {
    const auto all = view<uint64_t>(keys, "keys");
    const auto added = view<uint32_t>(amounts, "amounts", {static_cast<int64_t>(all.size)});
    nb::gil_scoped_release unlocked;
    for (size_t i = 0; i < all.size; ++i) counter.add(all[i], added[i]);
}

void remove(Counter& counter, const In& keys) {
    const auto all = view<uint64_t>(keys, "keys");
    nb::gil_scoped_release unlocked;
    for (size_t i = 0; i < all.size; ++i) counter.erase(all[i]);
}

nb::tuple entries(const Counter& counter) {
    Result<uint64_t> keys(counter.size());
    Result<uint32_t> found(counter.size());
    {
        nb::gil_scoped_release unlocked;
        size_t at = 0;
        for (size_t slice = 0; slice < num_slices; ++slice)
            counter.each(slice, [&](uint64_t key, uint32_t count) {
                keys[at] = key;
                found[at++] = count;
            });
    }
    return nb::make_tuple(keys.take(counter.size()), found.take(counter.size()));
}

}  // namespace

void bind_counter(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<Counter>(module, "Counter")
        .def(nb::init<>())
        .def("__len__", &Counter::size)
        .def("counts", counts, "keys"_a)
        .def("add", add, "keys"_a, "amounts"_a)
        .def("remove", remove, "keys"_a)
        .def("entries", entries)
        .def_prop_ro("memory_bytes", &Counter::resident_bytes);
}

}  // namespace xpsql
