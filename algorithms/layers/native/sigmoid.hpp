// Elementary functions of lanes of any size.
#pragma once

#include <cstring>

#include "projection.hpp"

namespace xpsql {

template <class Lane>
struct Functions {
    using Whole = decltype(Lane{} < Lane{});  // numbers of 32 bits, as many

    // exp(x), by 2^n times the series of e^rest up to the seventh power; x is in [-87, 87].
    static XPSQL_INLINE Lane exponential(Lane x) {
        const Lane magic = Lane{} + 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
        const Lane shifted = x * 1.44269504f + magic;
        const Lane n = shifted - magic;
        const Lane rest = (x - n * 0.693145752f) - n * 1.42860677e-6f;  // ln 2 in two parts
        Lane sum = Lane{} + 1.0f / 5040;
        for (const float factor : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) sum = sum * rest + factor;
        Whole bits, scale;
        std::memcpy(&bits, &sum, sizeof bits);
        std::memcpy(&scale, &shifted, sizeof scale);
        bits += scale << 23;  // n stands in the lowest bits of what was shifted
        std::memcpy(&sum, &bits, sizeof bits);
        return sum;
    }

    static XPSQL_INLINE Lane sigmoid(Lane x) {
        const Lane limit = Lane{} + 87.0f;
        x = x < -limit ? -limit : x;
        x = x > limit ? limit : x;
        return 1.0f / (1.0f + exponential(-x));
    }

    static XPSQL_INLINE Lane tanh(Lane x) { return 2.0f * sigmoid(2.0f * x) - 1.0f; }
};

}  // namespace xpsql
