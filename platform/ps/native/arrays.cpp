#include "arrays.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace xpsql {

// A thread that takes and frees the arrays of large requests over and over otherwise gives their pages back each time.
static void keep_freed_memory([[maybe_unused]] int bytes) {
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 1 << 25);  // the most that glibc takes; larger arrays are mapped by themselves
    mallopt(M_TRIM_THRESHOLD, bytes);
#endif
}

static std::string kind(uint8_t code) {
    switch (static_cast<nb::dlpack::dtype_code>(code)) {
        case nb::dlpack::dtype_code::Int: return "int";
        case nb::dlpack::dtype_code::UInt: return "uint";
        case nb::dlpack::dtype_code::Float: return "float";
        case nb::dlpack::dtype_code::Bool: return "bool";
        default: return "other";
    }
}

std::string describe(nb::dlpack::dtype dtype, std::initializer_list<int64_t> shape) {
    std::string text = kind(dtype.code) + std::to_string(dtype.bits);
    if (shape.size() == 0) return text;
    const char* separator = "[";
    for (int64_t length : shape) {
        text += separator + (length == any_length ? std::string("n") : std::to_string(length));
        separator = ", ";
    }
    return text + "]";
}

void refuse(const char* name, const std::string& expected, const std::string& came, bool type) {
    const std::string message = std::string(name) + " must be a C-contiguous array " + expected + ", got " + came;
    if (type) throw nb::type_error(message.c_str());
    throw nb::value_error(message.c_str());
}

void refuse_value(const char* name, const char* expected) {
    throw nb::type_error((std::string(name) + " must be " + expected).c_str());
}

void refuse_size() { throw nb::value_error("expected sizes whose bytes can be addressed, got more than 2^63 - 1"); }

void bind_arrays(nb::module_& module) {
    module.def("memory", [](size_t size) { return Result<uint8_t>(size).take(size); }, nb::arg("size"));
    module.def("keep_freed_memory", keep_freed_memory, nb::arg("bytes"));
}

}  // namespace xpsql
