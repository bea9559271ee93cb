// The network of attention over the elements of histories, and its gradients. A few elements that are there go through all layers
// before the next few begin, so that what they come to stays in the nearest caches.
#pragma once

#include <xla/ffi/api/ffi.h>

XLA_FFI_DECLARE_HANDLER_SYMBOL(xpsql_attend);
XLA_FFI_DECLARE_HANDLER_SYMBOL(xpsql_attend_gradients);
