// Functions compiled twice: for every processor, and for those with lanes of 32 bytes and fused multiply-add; some
// a third time, for those with lanes of 64 bytes.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define XPSQL_INLINE inline __attribute__((always_inline))  // all is compiled for its caller's processor
#define XPSQL_INLINED __attribute__((always_inline))         // the same of a lambda

namespace xpsql {

using Lane32 = float __attribute__((vector_size(32)));
using Lane64 = float __attribute__((vector_size(64)));

// Reads and writes lanes at any address.
template <class Lane>
struct Lanes {
    static XPSQL_INLINE Lane load(const float* from) {
        Lane values;
        std::memcpy(&values, from, sizeof values);
        return values;
    }
    static XPSQL_INLINE void store(float* to, Lane values) { std::memcpy(to, &values, sizeof values); }
};

#if defined(__x86_64__)
// What processor and system offer. __builtin_cpu_supports would take its answer from the compiler's runtime, which Zig's has
// in no form that a shared library can be linked with.
struct Processor {
    bool wide = false, widest = false;

    Processor() {
        constexpr uint32_t fma = 1u << 12, saves_lanes = 1u << 27, avx2 = 1u << 5, avx512f = 1u << 16, avx512dq = 1u << 17;
        constexpr uint32_t lanes32 = 0x06, lanes64 = 0xe6;  // the registers that the system saves
        uint32_t a, b, c, d, features, saved, upper;
        if (!__get_cpuid(1, &a, &b, &features, &d) || !(features & saves_lanes) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
        asm("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
        wide = (saved & lanes32) == lanes32 && (features & fma) && (b & avx2);
        widest = wide && (saved & lanes64) == lanes64 && (b & avx512f) && (b & avx512dq);
    }
};
inline const Processor processor;

#define XPSQL_WIDE __attribute__((target("avx2,fma")))
inline bool wide() { return processor.wide; }
#define XPSQL_WIDEST __attribute__((target("avx512f,avx512dq,avx2,fma")))
inline bool widest() { return processor.widest; }
#else
#define XPSQL_WIDE
#define XPSQL_WIDEST
inline bool wide() { return true; }
inline bool widest() { return false; }
#endif

}  // namespace xpsql
