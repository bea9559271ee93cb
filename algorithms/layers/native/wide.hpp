// Functions compiled twice: for every processor, and for those with lanes of 32 bytes and fused multiply-add; some
// a third time, for those with lanes of 64 bytes.
#pragma once

#include <cstring>

#define XPSQL_INLINE inline __attribute__((always_inline))  // all is compiled for its caller's processor

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
#define XPSQL_WIDE __attribute__((target("avx2,fma")))
inline bool wide() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#define XPSQL_WIDEST __attribute__((target("avx512f,avx512dq,avx2,fma")))
inline bool widest() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && wide(); }
#else
#define XPSQL_WIDE
#define XPSQL_WIDEST
inline bool wide() { return true; }
inline bool widest() { return false; }
#endif

}  // namespace xpsql
