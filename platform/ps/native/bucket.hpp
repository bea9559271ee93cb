// A cache line of an open-addressing index: twelve tags compared at once, and twelve row numbers.
//
// Source: N. Bronson and X. Shi, "Open-sourcing F14 for faster, more memory-efficient hash tables", Engineering at Meta, 2019.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "records.hpp"

namespace xpsql {

// Slots of a bucket, iterated from the first: `lane_bits` bits of the mask stand for one slot.
class Slots {
  public:
    Slots(uint64_t mask, int lane_bits) : mask_(mask), lane_bits_(lane_bits) {}

    explicit operator bool() const { return mask_ != 0; }
    int first() const { return __builtin_ctzll(mask_) / lane_bits_; }
    void drop_first() { mask_ &= mask_ - 1; }

  private:
    uint64_t mask_;
    int lane_bits_;
};

struct alignas(64) Bucket {
    static constexpr int size = 12;

    uint8_t tags[size];  // 0 where free
    uint16_t overflow;   // keys of this bucket or one before that stand in a later one; sticks at its maximum
    uint16_t reserved;
    Row rows[size];

    Slots match(uint8_t tag) const {
#if defined(__SSE2__)
        const __m128i line = _mm_load_si128(reinterpret_cast<const __m128i*>(tags));
        const int equal = _mm_movemask_epi8(_mm_cmpeq_epi8(line, _mm_set1_epi8(static_cast<char>(tag))));
        return {static_cast<uint64_t>(equal) & 0xFFF, 1};
#elif defined(__ARM_NEON)
        const uint8x16_t equal = vceqq_u8(vld1q_u8(tags), vdupq_n_u8(tag));
        const uint8x8_t nibbles = vshrn_n_u16(vreinterpretq_u16_u8(equal), 4);
        return {vget_lane_u64(vreinterpret_u64_u8(nibbles), 0) & 0x0000111111111111u, 4};
#else
        uint64_t equal = 0;
        for (int i = 0; i < size; ++i) equal |= static_cast<uint64_t>(tags[i] == tag) << i;
        return {equal, 1};
#endif
    }

    Slots free_slots() const { return match(0); }

    void pass() {
        if (overflow != sticky) ++overflow;
    }

    void unpass() {
        if (overflow != sticky) --overflow;
    }

  private:
    static constexpr uint16_t sticky = 0xFFFF;
};

static_assert(sizeof(Bucket) == 64, "a bucket is one cache line");

}  // namespace xpsql
