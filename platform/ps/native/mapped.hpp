// An image in memory that Python owns.
#pragma once

#include "arrays.hpp"
#include "image.hpp"

namespace xpsql {

class MappedImage {
  public:
    // Raises ValueError where the memory holds no image.
    explicit MappedImage(In memory) : memory_(std::move(memory)), image_(opened(memory_)) {}

    const Image& image() const { return image_; }

  private:
    static Image opened(const In& memory) {
        const auto bytes = view<uint8_t>(memory, "memory");
        if (reinterpret_cast<uintptr_t>(bytes.data) % alignof(uint64_t)) throw nb::value_error("memory must begin at a multiple of 8");
        return Image(bytes.data, bytes.size);
    }

    In memory_;
    Image image_;
};

}  // namespace xpsql
