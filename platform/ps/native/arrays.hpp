// Arrays as they come from Python: NumPy, JAX and Arrow buffers, checked and then seen as plain spans.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <type_traits>

namespace xpsql {

namespace nb = nanobind;

using In = nb::ndarray<nb::ro, nb::device::cpu>;
using Out = nb::ndarray<nb::device::cpu>;

template <class T>
using NumpyVector = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
struct Span {
    T* data;
    size_t size;

    T& operator[](size_t i) const { return data[i]; }
};

constexpr int64_t any_length = -1;

// "uint64[3, 4]"
std::string describe(nb::dlpack::dtype dtype, std::initializer_list<int64_t> shape);

template <class Array>
std::string describe(const Array& array) {
    std::string text = describe(array.dtype(), {}) + "[";
    for (size_t i = 0; i < array.ndim(); ++i) text += (i ? ", " : "") + std::to_string(array.shape(i));
    return text + "]";
}

[[noreturn]] void refuse(const char* name, const std::string& expected, const std::string& came, bool type);

// Raises TypeError for another dtype, ValueError for another shape or for memory that is not C-contiguous.
template <class T, class Array>
void check(const Array& array, const char* name, std::initializer_list<int64_t> shape) {
    bool fits = array.ndim() == shape.size();
    int64_t stride = 1;
    for (size_t i = shape.size(); fits && i-- > 0;) {
        const auto length = static_cast<int64_t>(array.shape(i));
        fits = (shape.begin()[i] == any_length || shape.begin()[i] == length) &&
               (length <= 1 || array.size() == 0 || array.stride(i) == stride);
        stride *= length;
    }
    const bool typed = array.dtype() == nb::dtype<T>();
    if (!typed || !fits) refuse(name, describe(nb::dtype<T>(), shape), describe(array), !typed);
}

template <class T>
Span<const T> view(const In& array, const char* name, std::initializer_list<int64_t> shape = {any_length}) {
    check<T>(array, name, shape);
    return {static_cast<const T*>(array.data()), array.size()};
}

template <class T>
Span<T> view(const Out& array, const char* name, std::initializer_list<int64_t> shape = {any_length}) {
    check<T>(array, name, shape);
    return {static_cast<T*>(array.data()), array.size()};
}

[[noreturn]] void refuse_size();

// A product of sizes, which may come from another process; raises ValueError where it is more than can be addressed.
inline size_t product(size_t one, size_t other) {
    size_t result;
    if (__builtin_mul_overflow(one, other, &result) || result > PTRDIFF_MAX) refuse_size();
    return result;
}

// The same for a sum.
inline size_t sum(size_t one, size_t other) {
    size_t result;
    if (__builtin_add_overflow(one, other, &result) || result > PTRDIFF_MAX) refuse_size();
    return result;
}

// Where XLA wants arrays to start: it copies those that start elsewhere before each call.
constexpr size_t array_alignment = 64;

// Memory that starts there, taken with room to spare, and what was given kept before it: glibc has no cache of small pieces for
// aligned allocation.
template <class T>
T* allocate_aligned(size_t count) {
    static_assert(std::is_trivial_v<T>);
    auto* given = static_cast<uint8_t*>(::operator new(sum(product(count, sizeof(T)), array_alignment)));
    auto* start = given + array_alignment - reinterpret_cast<uintptr_t>(given) % array_alignment;
    reinterpret_cast<void**>(start)[-1] = given;
    return reinterpret_cast<T*>(start);
}

struct AlignedDelete {
    void operator()(void* start) const noexcept { ::operator delete(static_cast<void**>(start)[-1]); }
};

// A new NumPy array, written without the GIL and then handed to Python.
template <class T>
class Result {
  public:
    explicit Result(size_t capacity) : data_(allocate_aligned<T>(capacity)) {}

    T* data() { return data_.get(); }
    T& operator[](size_t i) { return data_[i]; }

    NumpyVector<T> take(size_t size) {
        nb::capsule owner(data_.get(), [](void* data) noexcept { AlignedDelete{}(data); });
        T* data = data_.release();
        return NumpyVector<T>(data, {size}, owner);
    }

  private:
    std::unique_ptr<T[], AlignedDelete> data_;
};

[[noreturn]] void refuse_value(const char* name, const char* expected);

// A Python integer that T holds; raises ValueError for any other.
template <class T>
T integer(const nb::object& value, const char* name) {
    T result;
    if (nb::try_cast(value, result)) return result;
    const std::string most = std::to_string(std::numeric_limits<T>::max());
    throw nb::value_error((std::string(name) + " must lie in [0, " + most + "], got " + nb::str(value).c_str()).c_str());
}

// One value for all elements, or an array with one for each.
template <class T>
class Broadcast {
  public:
    Broadcast(const nb::object& value, const char* name, size_t size) {
        if (nb::isinstance<nb::int_>(value)) {
            one_ = integer<T>(value, name);
            return;
        }
        if (!nb::try_cast(value, array_)) refuse_value(name, "an integer or an array");
        each_ = view<T>(array_, name, {static_cast<int64_t>(size)}).data;
    }

    T operator[](size_t i) const { return each_ ? each_[i] : one_; }

  private:
    In array_;
    const T* each_ = nullptr;
    T one_ = 0;
};

}  // namespace xpsql
