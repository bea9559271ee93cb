// Gated recurrent units over the elements of histories, and their gradients. A few examples go through all their elements
// before the next few begin, so that states and gates stay in the nearest cache.
#pragma once

#include <xla/ffi/api/ffi.h>

// states[b, l] = the state after element l of products[b, l] + bias; recurrent and bias hold u, r and c side by side
XLA_FFI_DECLARE_HANDLER_SYMBOL(xpsql_recur);
XLA_FFI_DECLARE_HANDLER_SYMBOL(xpsql_recur_gradients);
