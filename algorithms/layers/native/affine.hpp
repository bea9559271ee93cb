// Layers x W + b of networks side by side, and their gradients. Few rows and columns of a batch are more often asked for than
// large ones, so a kernel is laid out once per call, and sums stay in registers.
#pragma once

#include <xla/ffi/api/ffi.h>

XLA_FFI_DECLARE_HANDLER_SYMBOL(xpsql_affine);
XLA_FFI_DECLARE_HANDLER_SYMBOL(xpsql_affine_gradients);
