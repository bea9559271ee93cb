// An image in memory that Python owns, and another one over it.
#pragma once

#include <memory>

#include "arrays.hpp"
#include "image.hpp"

namespace xpsql {

class MappedImage {
  public:
    // Raises ValueError where the memory holds no image. over: None, or an image whose rows replace rows of the same keys.
    MappedImage(In memory, const nb::object& over) : memory_(std::move(memory)), image_(opened(memory_)) {
        if (over.is_none()) return;
        over_memory_ = nb::cast<In>(over);
        over_ = std::make_unique<Image>(opened(over_memory_));
        layers();  // whose rows are of one width
    }

    const Image& image() const { return image_; }
    Layers layers() const { return Layers(image_, over_.get()); }

  private:
    static Image opened(const In& memory) {
        const auto bytes = view<uint8_t>(memory, "memory");
        if (reinterpret_cast<uintptr_t>(bytes.data) % alignof(uint64_t)) throw nb::value_error("memory must begin at a multiple of 8");
        return Image(bytes.data, bytes.size);
    }

    In memory_, over_memory_;
    Image image_;
    std::unique_ptr<Image> over_;
};

}  // namespace xpsql
