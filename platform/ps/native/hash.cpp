// Bindings of the hash over Arrow columns. A NULL leaves the seed as it is, as in Spark.
#include "arrays.hpp"
#include "decimal.hpp"
#include "murmur.hpp"
#include "validity.hpp"
#include "xxh64.hpp"

namespace xpsql {

namespace {

using Hashes = NumpyVector<uint64_t>;

template <class Hash>
Hashes hash_each(size_t size, const nb::object& validity, size_t bit_offset, const nb::object& seeds, Hash hash) {
    const Validity valid(validity, bit_offset, size);
    const Broadcast<uint64_t> seed(seeds, "seeds", size);
    Result<uint64_t> hashes(size);
    {
        nb::gil_scoped_release unlocked;
        for (size_t i = 0; i < size; ++i) hashes[i] = valid[i] ? hash(i, seed[i]) : seed[i];
    }
    return hashes.take(size);
}

using HashBytes = uint64_t (*)(const uint8_t*, size_t, uint64_t);

template <HashBytes hash, class Offset>
Hashes hash_strings(Span<const Offset> offsets, Span<const uint8_t> data, const nb::object& validity, size_t bit_offset,
                    const nb::object& seeds) {
    if (offsets.size == 0) throw nb::value_error("offsets must hold one element more than there are values, got 0");
    bool inside = true;
    auto hashes = hash_each(offsets.size - 1, validity, bit_offset, seeds, [&](size_t i, uint64_t seed) -> uint64_t {
        const Offset begin = offsets[i], end = offsets[i + 1];
        if (begin < 0 || end < begin || static_cast<uint64_t>(end) > data.size) {
            inside = false;
            return 0;
        }
        return hash(data.data + begin, static_cast<size_t>(end - begin), seed);
    });
    if (!inside) throw nb::value_error("offsets must ascend and stay within data");
    return hashes;
}

template <HashBytes hash>
Hashes hash_bytes(const In& offsets, const In& data, const nb::object& validity, size_t bit_offset, const nb::object& seeds) {
    const auto bytes = view<uint8_t>(data, "data");
    if (offsets.dtype() == nb::dtype<int32_t>())
        return hash_strings<hash>(view<int32_t>(offsets, "offsets"), bytes, validity, bit_offset, seeds);
    return hash_strings<hash>(view<int64_t>(offsets, "offsets"), bytes, validity, bit_offset, seeds);
}

template <uint64_t (*hash)(uint32_t, uint64_t)>
Hashes hash_int32(const In& values, const nb::object& validity, size_t bit_offset, const nb::object& seeds) {
    const auto numbers = view<int32_t>(values, "values");
    return hash_each(numbers.size, validity, bit_offset, seeds,
                     [&](size_t i, uint64_t seed) { return hash(static_cast<uint32_t>(numbers[i]), seed); });
}

template <uint64_t (*hash)(uint64_t, uint64_t)>
Hashes hash_int64(const In& values, const nb::object& validity, size_t bit_offset, const nb::object& seeds) {
    const auto numbers = view<int64_t>(values, "values");
    return hash_each(numbers.size, validity, bit_offset, seeds,
                     [&](size_t i, uint64_t seed) { return hash(static_cast<uint64_t>(numbers[i]), seed); });
}

Hashes hash_int64_text(const In& values, const nb::object& validity, size_t bit_offset, const nb::object& seeds) {
    const auto numbers = view<int64_t>(values, "values");
    return hash_each(numbers.size, validity, bit_offset, seeds, [&](size_t i, uint64_t seed) {
        char text[max_decimal];
        const size_t size = write_decimal(numbers[i], text);
        return xxh64::hash_bytes(reinterpret_cast<const uint8_t*>(text), size, seed);
    });
}

}  // namespace

void bind_hash(nb::module_& module) {
    using namespace nb::literals;
    const auto none = nb::none();
    module.def("hash_bytes", hash_bytes<xxh64::hash_bytes>, "offsets"_a, "data"_a, "validity"_a = none, "bit_offset"_a = 0,
               "seeds"_a = 42);
    module.def("hash_int32", hash_int32<xxh64::hash_int32>, "values"_a, "validity"_a = none, "bit_offset"_a = 0, "seeds"_a = 42);
    module.def("hash_int64", hash_int64<xxh64::hash_int64>, "values"_a, "validity"_a = none, "bit_offset"_a = 0, "seeds"_a = 42);
    module.def("murmur_bytes", hash_bytes<murmur::hash_bytes>, "offsets"_a, "data"_a, "validity"_a = none, "bit_offset"_a = 0,
               "seeds"_a = 42);
    module.def("murmur_int32", hash_int32<murmur::hash_int32>, "values"_a, "validity"_a = none, "bit_offset"_a = 0, "seeds"_a = 42);
    module.def("murmur_int64", hash_int64<murmur::hash_int64>, "values"_a, "validity"_a = none, "bit_offset"_a = 0, "seeds"_a = 42);
    module.def("hash_int64_text", hash_int64_text, "values"_a, "validity"_a = none, "bit_offset"_a = 0, "seeds"_a = 42);
}

}  // namespace xpsql
