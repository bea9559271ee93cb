// Messages as bytes: what codec.cpp writes and reads, and frames.cpp sends and receives.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace xpsql {

namespace nb = nanobind;

// What a frame's parts, and the arrays of a message, start at multiples of.
constexpr size_t alignment = 64;

constexpr char zeros[alignment] = {};

constexpr size_t aligned(size_t size) { return (size + alignment - 1) / alignment * alignment; }

nb::object checked(PyObject* made);

// The memory of a Python object, for as long as this lives.
class View {
  public:
    View(nb::handle object, int flags);
    View(View&& other) noexcept : buffer_(std::exchange(other.buffer_, Py_buffer{})) {}
    View& operator=(View&&) = delete;
    ~View() { PyBuffer_Release(&buffer_); }

    const Py_buffer* operator->() const { return &buffer_; }
    const uint8_t* data() const { return static_cast<const uint8_t*>(buffer_.buf); }
    size_t size() const { return static_cast<size_t>(buffer_.len); }
    nb::object object() const { return nb::borrow(buffer_.obj); }

  private:
    Py_buffer buffer_{};
};

// A message on its way out: its table of contents after `head`, and the memory of its arrays, none of which is empty.
struct Written {
    std::string head;
    size_t contents_bytes = 0;
    std::vector<View> arrays;
    size_t body_bytes = 0;
};

class Type;

// Writes and reads messages of one declaration.
class Schema {
  public:
    Schema(const nb::tuple& description, const nb::sequence& dtypes);

    // Appends the table of contents, with zeros up to a multiple of 64 bytes, to `head`.
    Written write(nb::handle message, std::string head) const;
    nb::object read(const nb::object& rest, size_t contents_bytes) const;

  private:
    std::shared_ptr<const Type> type_;
};

}  // namespace xpsql
