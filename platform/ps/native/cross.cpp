// Bindings of combinations of codes and of keys of crosses.
#include "cross.hpp"

#include <optional>

#include "arrays.hpp"
#include "validity.hpp"

namespace xpsql {

namespace {

nb::tuple combinations(const In& codes) {
    check<int32_t>(codes, "codes", {any_length, any_length});
    const CodeLines lines{static_cast<const int32_t*>(codes.data()), codes.shape(0), codes.shape(1)};
    if (lines.n > INT32_MAX) throw nb::value_error("combinations takes at most 2^31 - 1 rows");
    Result<int64_t> first(lines.n);
    Result<int32_t> inverse(lines.n);
    size_t count;
    {
        nb::gil_scoped_release unlocked;
        count = find_combinations(lines, first.data(), inverse.data());
    }
    return nb::make_tuple(first.take(count), inverse.take(lines.n));
}

// The texts of one member of a cross, as Arrow has them, and which of them each key takes.
class Texts {
  public:
    Texts(const nb::tuple& member, size_t n) {
        if (member.size() != 5) throw nb::value_error("a member is (offsets, data, validity, bit_offset, positions)");
        offsets_ = nb::cast<In>(member[0]);
        data_ = nb::cast<In>(member[1]);
        positions_ = nb::cast<In>(member[4]);
        if (offsets_.dtype() == nb::dtype<int64_t>())
            large_ = view<int64_t>(offsets_, "offsets");
        else
            small_ = view<int32_t>(offsets_, "offsets");
        const size_t ends = small_.data ? small_.size : large_.size;
        if (ends == 0) throw nb::value_error("offsets must hold one element more than there are values, got 0");
        size_ = ends - 1;
        bytes_ = view<uint8_t>(data_, "data");
        at_ = view<int64_t>(positions_, "positions", {static_cast<int64_t>(n)});
        valid_.emplace(nb::object(member[2]), nb::cast<size_t>(member[3]), size_);
    }

    // Appends the text of key i; false where memory of the arrays leads out of itself.
    bool write(size_t i, CrossHash& hash) const {
        const int64_t at = at_[i];
        if (at < 0 || static_cast<uint64_t>(at) >= size_) return false;
        const auto row = static_cast<size_t>(at);
        if (!(*valid_)[row]) {
            hash.null();
            return true;
        }
        const int64_t begin = small_.data ? small_[row] : large_[row], end = small_.data ? small_[row + 1] : large_[row + 1];
        if (begin < 0 || end < begin || static_cast<uint64_t>(end) > bytes_.size) return false;
        hash.value(bytes_.data + begin, static_cast<size_t>(end - begin));
        return true;
    }

  private:
    In offsets_, data_, positions_;
    Span<const int32_t> small_{nullptr, 0};
    Span<const int64_t> large_{nullptr, 0}, at_{nullptr, 0};
    Span<const uint8_t> bytes_{nullptr, 0};
    std::optional<Validity> valid_;
    size_t size_ = 0;
};

NumpyVector<uint64_t> hash_cross(const nb::sequence& members, const nb::object& count, const nb::object& seed) {
    const auto n = integer<size_t>(count, "count");
    std::vector<Texts> texts;
    for (const nb::handle member : members) texts.emplace_back(nb::cast<nb::tuple>(member), n);
    CrossHash hash(integer<uint64_t>(seed, "seed"));
    Result<uint64_t> keys(n);
    bool inside = true;
    {
        nb::gil_scoped_release unlocked;
        for (size_t i = 0; i < n && inside; ++i) {
            hash.begin();
            for (size_t m = 0; m < texts.size(); ++m) {
                if (m) hash.separate();
                inside &= texts[m].write(i, hash);
            }
            keys[i] = hash.key();
        }
    }
    if (!inside) throw nb::value_error("positions must be those of values, and offsets ascend and stay within data");
    return keys.take(n);
}

}  // namespace

void bind_cross(nb::module_& module) {
    using namespace nb::literals;
    module.def("combinations", combinations, "codes"_a);
    module.def("hash_cross", hash_cross, "members"_a, "count"_a, "seed"_a);
}

}  // namespace xpsql
