// Attention of each event to a run of cells of its strip, by softmax or by SiLU, and its gradients. Scores of a few events at a time
// stay in the nearest caches; cells that none of them sees are left out.
#pragma once

#include <xla/ffi/api/ffi.h>

XLA_FFI_DECLARE_HANDLER_SYMBOL(xpsql_soft_runs);
XLA_FFI_DECLARE_HANDLER_SYMBOL(xpsql_soft_runs_gradients);
XLA_FFI_DECLARE_HANDLER_SYMBOL(xpsql_silu_runs);
XLA_FFI_DECLARE_HANDLER_SYMBOL(xpsql_silu_runs_gradients);
