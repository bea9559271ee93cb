// Arrow's validity bitmap as it comes from Python.
#pragma once

#include <string>

#include "arrays.hpp"

namespace xpsql {

// Bit `offset + i` is that of element i, least significant bit first; without a bitmap all elements are valid.
class Validity {
  public:
    Validity(const nb::object& bitmap, size_t offset, size_t size) : offset_(offset) {
        if (bitmap.is_none()) return;
        array_ = nb::cast<In>(bitmap);
        const auto bytes = view<uint8_t>(array_, "validity");
        if (bytes.size < (offset + size + 7) / 8) {
            const std::string message = "validity must hold " + std::to_string(offset + size) + " bits, got " +
                                        std::to_string(bytes.size) + " bytes";
            throw nb::value_error(message.c_str());
        }
        bits_ = bytes.data;
    }

    bool operator[](size_t i) const { return !bits_ || (bits_[(offset_ + i) >> 3] >> ((offset_ + i) & 7) & 1); }

  private:
    In array_;
    const uint8_t* bits_ = nullptr;
    size_t offset_;
};

}  // namespace xpsql
