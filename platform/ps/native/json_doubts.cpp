// Which JSON objects have values that need a closer look: keys that repeat, and tokens that their columns do not take as they
// are. One pass over the bytes, without a tree; what is no JSON object has no doubts here, whoever parses it finds that.
#include <cstring>
#include <vector>

#include "arrays.hpp"
#include "xxh64.hpp"

namespace xpsql {

namespace {

// Bits of a column's mask: the kinds of tokens that are in doubt.
enum Doubt : uint16_t { whole = 1, fraction = 2, text = 4, text_with_fraction = 8, boolean = 16, odd_time = 32, nested = 64,
                        nested_fraction = 128, nested_text = 256, beyond_int = 512 };

struct Key {
    uint64_t hash;
    uint16_t mask;
};

class Reader {
  public:
    Reader(const uint8_t* begin, const uint8_t* end, const std::vector<Key>& keys, std::vector<uint64_t>& seen)
        : at_(begin), end_(end), keys_(keys), seen_(seen) {}

    bool doubtful() {
        seen_.clear();
        space();
        if (!take('{')) return false;
        while (true) {
            space();
            if (at_ == end_ || *at_ != '"') return false;
            const uint8_t* name = ++at_;
            bool escaped = false;
            if (!string(escaped)) return false;
            if (escaped) return true;
            const uint64_t hash = xxh64::hash_bytes(name, static_cast<size_t>(at_ - 1 - name), 42);
            for (const uint64_t other : seen_)
                if (other == hash) return true;
            seen_.push_back(hash);
            space();
            if (!take(':')) return false;
            space();
            uint16_t mask = 0;
            for (const Key& key : keys_)
                if (key.hash == hash) mask = key.mask;
            if (value() & mask) return true;
            space();
            if (!take(',')) return false;
        }
    }

  private:
    static bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

    void space() {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
    }

    bool take(uint8_t byte) {
        if (at_ == end_ || *at_ != byte) return false;
        ++at_;
        return true;
    }

    // Passes over the rest of a string; false where it does not end.
    bool string(bool& escaped) {
        while (at_ != end_) {
            const uint8_t byte = *at_++;
            if (byte == '"') return true;
            if (byte != '\\') continue;
            escaped = true;
            if (at_ == end_) return false;
            ++at_;
        }
        return false;
    }

    // Passes over a value; returns what kinds of token it is.
    uint16_t value() {
        if (at_ == end_) return 0;
        if (*at_ == '"') {
            const uint8_t* begin = ++at_;
            bool escaped = false;
            return string(escaped) ? kinds_of_text(begin, at_ - 1) : 0;
        }
        if (*at_ == '{' || *at_ == '[') return parts();
        if (*at_ == 't' || *at_ == 'f') {
            word();
            return boolean;
        }
        if (*at_ == 'n') {
            word();
            return 0;
        }
        return number();
    }

    static uint16_t kinds_of_text(const uint8_t* begin, const uint8_t* end) {
        uint16_t kinds = text;
        for (const uint8_t* byte = begin; byte != end; ++byte)
            if (*byte == '.' || *byte == 'e' || *byte == 'E') kinds |= text_with_fraction;
        return static_cast<uint16_t>(usual_time(begin, static_cast<size_t>(end - begin)) ? kinds : kinds | odd_time);
    }

    // Whether a text is like 2024-01-31, or 2024-01-31 10:05:00 with T or a space, and Z or nothing behind it.
    static bool usual_time(const uint8_t* text, size_t size) {
        static const char form[] = "0000-00-00T00:00:00Z";
        if (size != 10 && size != 19 && size != 20) return false;
        for (size_t i = 0; i < size; ++i) {
            const bool fits = form[i] == '0' ? is_digit(text[i]) : text[i] == form[i] || (i == 10 && text[i] == ' ');
            if (!fits) return false;
        }
        return size == 10 || text[11] < '2' || text[12] < '4';
    }

    void word() {
        while (at_ != end_ && *at_ >= 'a' && *at_ <= 'z') ++at_;
    }

    // Passes over a number. One that is a word for no number, or beyond 64 bits, counts as one with a fraction.
    uint16_t number() {
        bool found = false;
        const uint8_t* begin = at_ + (*at_ == '-');
        for (; at_ != end_ && *at_ != ',' && *at_ != '}' && *at_ != ']' && *at_ > ' '; ++at_) found |= !is_digit(*at_) && *at_ != '-';
        const auto size = at_ - begin;
        if (found || size > 19 || (size == 19 && std::memcmp(begin, "9223372036854775807", 19) > 0)) return fraction;
        return size > 10 || (size == 10 && std::memcmp(begin, "2147483647", 10) > 0) ? whole | beyond_int : whole;
    }

    // Passes over an object or array.
    uint16_t parts() {
        uint16_t kinds = nested;
        size_t depth = 0;
        while (at_ != end_) {
            const uint8_t byte = *at_++;
            bool escaped = false;
            if (byte == '{' || byte == '[') ++depth;
            else if (byte == '}' || byte == ']') {
                if (--depth == 0) break;
            } else if (byte == '"') {
                string(escaped);
                kinds |= nested_text;
            }
            else if (byte == '.' || byte == 'E' || byte == 'N' || byte == 'I') kinds |= nested_fraction;
            else if (byte == 'e' && is_digit(at_[-2])) kinds |= nested_fraction;  // a bracket stands before all values
        }
        return kinds;
    }

    const uint8_t* at_;
    const uint8_t* end_;
    const std::vector<Key>& keys_;
    std::vector<uint64_t>& seen_;
};

template <class Offset>
NumpyVector<uint8_t> doubts_of(Span<const Offset> offsets, Span<const uint8_t> data, const std::vector<Key>& keys) {
    if (offsets.size == 0) throw nb::value_error("offsets must hold one element more than there are values, got 0");
    Result<uint8_t> doubts(offsets.size - 1);
    bool inside = true;
    {
        nb::gil_scoped_release unlocked;
        std::vector<uint64_t> seen;
        for (size_t i = 0; i + 1 < offsets.size; ++i) {
            const Offset begin = offsets[i], end = offsets[i + 1];
            if (begin < 0 || end < begin || static_cast<uint64_t>(end) > data.size) {
                inside = false;
                break;
            }
            doubts[i] = Reader(data.data + begin, data.data + end, keys, seen).doubtful();
        }
    }
    if (!inside) throw nb::value_error("offsets must ascend and stay within data");
    return doubts.take(offsets.size - 1);
}

NumpyVector<uint8_t> json_doubts(const In& offsets, const In& data, const In& names, const In& masks) {
    const auto hashes = view<uint64_t>(names, "names");
    const auto bits = view<uint16_t>(masks, "masks");
    if (hashes.size != bits.size) throw nb::value_error("names and masks must have one length");
    std::vector<Key> keys;
    for (size_t k = 0; k < hashes.size; ++k) keys.push_back({hashes[k], bits[k]});
    const auto bytes = view<uint8_t>(data, "data");
    if (offsets.dtype() == nb::dtype<int32_t>()) return doubts_of(view<int32_t>(offsets, "offsets"), bytes, keys);
    return doubts_of(view<int64_t>(offsets, "offsets"), bytes, keys);
}

}  // namespace

void bind_json_doubts(nb::module_& module) {
    using namespace nb::literals;
    module.def("json_doubts", json_doubts, "offsets"_a, "data"_a, "names"_a, "masks"_a);
}

}  // namespace xpsql
