// Arrow's C data interface: arrays of another library in the same process.
//
// Source: https://arrow.apache.org/docs/format/CDataInterface.html.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

struct ArrowSchema {
    const char* format;
    const char* name;
    const char* metadata;
    int64_t flags;
    int64_t n_children;
    ArrowSchema** children;
    ArrowSchema* dictionary;
    void (*release)(ArrowSchema*);
    void* private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void** buffers;
    ArrowArray** children;
    ArrowArray* dictionary;
    void (*release)(ArrowArray*);
    void* private_data;
};

namespace xpsql::arrow {

// An array, and how to read its elements; `i` counts from its offset.
class View {
  public:
    View(const ArrowSchema& schema, const ArrowArray& array) : format_(schema.format), array_(array) {
        bits_ = array.null_count != 0 && array.n_buffers > 0 ? static_cast<const uint8_t*>(array.buffers[0]) : nullptr;
    }

    std::string_view format() const { return format_; }
    size_t size() const { return static_cast<size_t>(array_.length); }
    const ArrowArray& array() const { return array_; }

    bool valid(size_t i) const {
        const size_t bit = static_cast<size_t>(array_.offset) + i;
        return !bits_ || (bits_[bit >> 3] >> (bit & 7) & 1);
    }

    template <class T>
    T at(size_t i) const {
        return static_cast<const T*>(array_.buffers[1])[static_cast<size_t>(array_.offset) + i];
    }

    bool bit(size_t i) const {
        const size_t at = static_cast<size_t>(array_.offset) + i;
        return static_cast<const uint8_t*>(array_.buffers[1])[at >> 3] >> (at & 7) & 1;
    }

    // Where the bytes of a string, or the elements of a list, begin and end. They ascend and end where the last one does, which
    // whoever made the array has checked.
    template <class Offset>
    std::pair<size_t, size_t> range(size_t i, size_t most) const {
        const auto* offsets = static_cast<const Offset*>(array_.buffers[1]) + array_.offset;
        const Offset begin = offsets[i], end = offsets[i + 1];
        if (begin < 0 || end < begin || static_cast<size_t>(end) > most) throw std::invalid_argument("offsets must ascend");
        return {static_cast<size_t>(begin), static_cast<size_t>(end)};
    }

    template <class Offset>
    size_t last() const {
        if (array_.length == 0) return 0;
        const Offset end = (static_cast<const Offset*>(array_.buffers[1]) + array_.offset)[array_.length];
        if (end < 0) throw std::invalid_argument("offsets must ascend");
        return static_cast<size_t>(end);
    }

    const uint8_t* bytes() const { return static_cast<const uint8_t*>(array_.buffers[2]); }

  private:
    std::string_view format_;
    const ArrowArray& array_;
    const uint8_t* bits_;
};

}  // namespace xpsql::arrow
