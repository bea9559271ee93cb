// Bindings of images.
#include "image.hpp"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "mapped.hpp"

namespace xpsql {

namespace {

constexpr size_t block = 4096;  // keys whose floats of 16 bits are made of 32 at once

struct Part {
    size_t first, floats;
    float* to;
};

void gather(const MappedImage& mapped, const In& keys_in, const std::vector<std::tuple<size_t, Out>>& outs) {
    const Layers layers = mapped.layers();
    const auto keys = view<uint64_t>(keys_in, "keys");
    std::vector<Part> parts;
    for (const auto& [first, out] : outs) {
        const auto to = view<float>(out, "outs", {any_length, any_length});
        const size_t floats = out.shape(1);
        if (out.shape(0) < keys.size || floats > layers.width() || first > layers.width() - floats)
            throw nb::value_error("outs must have a row for each key, of floats that a row has");
        parts.push_back({first, floats, to.data});
    }
    nb::gil_scoped_release unlocked;
    std::vector<float> room(layers.room(std::min(block, keys.size)));
    for (size_t first = 0; first < keys.size; first += block)
        layers.find(keys.data + first, std::min(block, keys.size - first), room.data(), [&](size_t i, const float* row) {
            for (const Part& part : parts) std::memcpy(part.to + (first + i) * part.floats, row + part.first, part.floats * sizeof(float));
        });
}

// Tells which keys have a row: 1, else 0.
NumpyVector<uint8_t> has(const MappedImage& mapped, const In& keys_in) {
    const auto keys = view<uint64_t>(keys_in, "keys");
    Result<uint8_t> out(keys.size);
    {
        nb::gil_scoped_release unlocked;
        mapped.layers().has(keys.data, keys.size, out.data());
    }
    return out.take(keys.size);
}

// Tells which rows are others than an image has, in their floats from `first` on: 0 the same, 1 another, 2 of a key that it has not.
NumpyVector<uint8_t> differing(const MappedImage& mapped, const In& keys_in, size_t first, const In& rows_in) {
    const Image& image = mapped.image();
    const auto keys = view<uint64_t>(keys_in, "keys");
    const auto rows = view<float>(rows_in, "rows", {static_cast<int64_t>(keys.size), any_length});
    const size_t floats = rows_in.shape(1);
    if (floats > image.width() || first > image.width() - floats) throw nb::value_error("rows must have floats that a row has");
    Result<uint8_t> out(keys.size);
    {
        nb::gil_scoped_release unlocked;
        std::vector<float> room(image.width());
        image.find(keys.data, keys.size, [&](size_t i, uint64_t place) {
            const float *own = image.row(place, room.data()) + first, *other = rows.data + i * floats;
            out[i] = place == image.nowhere() ? 2 : !std::equal(own, own + floats, other);
        });
    }
    return out.take(keys.size);
}

}  // namespace

void bind_image(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<MappedImage>(module, "Image")
        .def(nb::init<In, const nb::object&>(), "memory"_a, "over"_a.none() = nb::none())
        .def("__len__", [](const MappedImage& mapped) { return mapped.image().rows(); })
        .def_prop_ro("width", [](const MappedImage& mapped) { return mapped.image().width(); })
        .def("gather", gather, "keys"_a, "outs"_a)
        .def("has", has, "keys"_a)
        .def("differing", differing, "keys"_a, "first"_a, "rows"_a);
}

}  // namespace xpsql
