// Functions compiled twice: for every processor, and for those with lanes of 32 bytes and fused multiply-add.
#pragma once

namespace xpsql {

#if defined(__x86_64__)
#define XPSQL_WIDE __attribute__((target("avx2,fma")))
inline bool wide() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
#define XPSQL_WIDE
inline bool wide() { return true; }
#endif

}  // namespace xpsql
