// What custom calls of XLA are given, and what they fill.
#pragma once

#include <xla/ffi/api/ffi.h>

namespace xpsql {

using Floats = xla::ffi::Buffer<xla::ffi::F32>;
using Indices = xla::ffi::Buffer<xla::ffi::S32>;
using Flags = xla::ffi::Buffer<xla::ffi::PRED>;
using FloatsOut = xla::ffi::Result<Floats>;

}  // namespace xpsql
