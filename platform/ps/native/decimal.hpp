// The decimal text of integers.
//
// Source: P. Khuong, "How to print integers really fast", https://pvk.ca, December 2017, for eight digits in one word.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace xpsql {

constexpr size_t max_decimal = 20;  // "-9223372036854775808"

// The eight digits of value < 10^8, one a byte, the first in the lowest byte.
inline uint64_t eight_digits(uint32_t value) {
    const uint64_t fours = value / 10000 | static_cast<uint64_t>(value % 10000) << 32;
    const uint64_t hundreds = (fours * 10486 >> 20) & 0x7F0000007Fu;  // 10486 / 2^20 = 1 / 100 below 10^4
    const uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
    const uint64_t tens = (twos * 103 >> 10) & 0x000F000F000F000Fu;  // 103 / 2^10 = 1 / 10 below 100
    return tens | (twos - 10 * tens) << 8;
}

// Writes the text and returns its length. Up to eight digits are one store, which the hash can read back without waiting.
inline size_t write_decimal(int64_t value, char (&text)[max_decimal]) {
    if (value <= 0 || value >= 100000000) return static_cast<size_t>(std::to_chars(text, text + max_decimal, value).ptr - text);
    const uint64_t digits = eight_digits(static_cast<uint32_t>(value));
    const int leading = __builtin_ctzll(digits) / 8;
    const uint64_t ascii = (digits | 0x3030303030303030u) >> (8 * leading);
    std::memcpy(text, &ascii, sizeof ascii);
    return static_cast<size_t>(8 - leading);
}

}  // namespace xpsql
