// The functions that answer are those of algorithms/bridges/callback.py.
#include "callback.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <vector>

namespace nb = nanobind;
namespace ffi = xla::ffi;

namespace xpsql {

namespace {

nb::dlpack::dtype type_of(ffi::DataType type) {
    switch (type) {
        case ffi::F32: return nb::dtype<float>();
        case ffi::S32: return nb::dtype<int32_t>();
        case ffi::U32: return nb::dtype<uint32_t>();
        case ffi::PRED: return nb::dtype<bool>();
        default: throw nb::type_error("a call takes float32, int32, uint32 and bool");
    }
}

template <class Ndarray>
nb::object array_of(const ffi::AnyBuffer& buffer) {
    const std::vector<size_t> shape(buffer.dimensions().begin(), buffer.dimensions().end());
    const Ndarray array(buffer.untyped_data(), shape.size(), shape.data(), nb::handle(), nullptr, type_of(buffer.element_type()));
    return nb::cast(array, nb::rv_policy::reference);
}

ffi::Error callback(int64_t number, int64_t what, ffi::RemainingArgs given, ffi::RemainingRets into) {
    const nb::gil_scoped_acquire lock;
    try {
        nb::list arguments, results;
        for (size_t i = 0; i < given.size(); ++i)
            arguments.append(array_of<nb::ndarray<nb::numpy, nb::ro>>(*given.get<ffi::AnyBuffer>(i)));
        for (size_t i = 0; i < into.size(); ++i) results.append(array_of<nb::ndarray<nb::numpy>>(**into.get<ffi::AnyBuffer>(i)));
        nb::module_::import_("xpsql.algorithms.bridges.callback").attr("answer")(number, what, arguments, results);
        return ffi::Error::Success();
    } catch (const std::exception& error) {  // of Python, with its traceback
        return ffi::Error::Internal(error.what());
    }
}

}  // namespace

}  // namespace xpsql

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    xpsql_callback, xpsql::callback,
    xla::ffi::Ffi::Bind().Attr<int64_t>("number").Attr<int64_t>("what").RemainingArgs().RemainingRets());
