// Searches of long histories; the contract is _lookups.pyi.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstdint>

namespace xpsql {

namespace nb = nanobind;

void bind_search(nb::module_& module);

}  // namespace xpsql
