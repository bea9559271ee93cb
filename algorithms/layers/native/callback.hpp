// A custom call of XLA that Python computes: what torch does in a step.
#pragma once

#include <xla/ffi/api/ffi.h>

// Calls answer(number, what, given, into) of xpsql.algorithms.bridges.callback with arrays of numpy: the arguments, which it may
// read, and the results, which it writes. Its attributes are integers, so that a program that is kept on disk can be run by
// another process.
XLA_FFI_DECLARE_HANDLER_SYMBOL(xpsql_callback);
