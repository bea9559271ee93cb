// Bindings of images.
#include "image.hpp"

#include "arrays.hpp"
#include "mapped.hpp"

namespace xpsql {

namespace {

void gather(const MappedImage& mapped, const In& keys_in, const Out& outs) {
    const Image& image = mapped.image();
    const auto keys = view<uint64_t>(keys_in, "keys");
    const auto to = view<float>(outs, "outs", {any_length, static_cast<int64_t>(image.dim())});
    if (to.size < keys.size * image.dim()) throw nb::value_error("outs must have a row for each key");
    nb::gil_scoped_release unlocked;
    const float* rows[Image::block];
    for (size_t first = 0; first < keys.size; first += Image::block) {
        const size_t count = std::min(Image::block, keys.size - first);
        image.find(keys.data + first, count, rows);
        for (size_t i = 0; i < count; ++i)
            std::memcpy(to.data + (first + i) * image.dim(), rows[i], image.dim() * sizeof(float));
    }
}

void fill(const Out& memory, const In& keys_in, const In& values_in) {
    const auto bytes = view<uint8_t>(memory, "memory");
    const auto keys = view<uint64_t>(keys_in, "keys");
    const Image image(bytes.data, bytes.size);
    const auto values = view<float>(values_in, "values", {static_cast<int64_t>(keys.size), static_cast<int64_t>(image.dim())});
    nb::gil_scoped_release unlocked;
    for (size_t i = 0; i < keys.size; ++i)
        std::memcpy(image.claim(bytes.data, keys[i]), values.data + i * image.dim(), image.dim() * sizeof(float));
}

}  // namespace

void bind_image(nb::module_& module) {
    using namespace nb::literals;
    module.attr("IMAGE_HEAD_BYTES") = Image::head_bytes;
    module.def("fill_image", fill, "memory"_a, "keys"_a, "values"_a);
    nb::class_<MappedImage>(module, "Image")
        .def(nb::init<In>(), "memory"_a)
        .def("__len__", [](const MappedImage& mapped) { return mapped.image().rows(); })
        .def_prop_ro("dim", [](const MappedImage& mapped) { return mapped.image().dim(); })
        .def("gather", gather, "keys"_a, "outs"_a);
}

}  // namespace xpsql
