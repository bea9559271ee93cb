// Floats of 16 bits, IEEE 754 binary16, as floats.
#pragma once

#include <cstdint>
#include <cstring>

namespace xpsql {

inline float float_of_half(uint16_t half) {
    const uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7FFFu;
    uint32_t bits = (magnitude << 13) + 0x38000000u;  // the exponent is counted from 127 in place of 15
    if (magnitude >= 0x7C00u) bits += 0x38000000u;    // infinite, or no number
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (magnitude < 0x0400u) {  // less than the least normal one: 2^-24 each
        value = static_cast<float>(magnitude) * 0x1p-24f;
        std::memcpy(&bits, &value, sizeof bits);
    }
    bits |= sign;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace xpsql
