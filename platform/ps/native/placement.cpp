// Bindings that divide keys among shards and move the rows of arrays between the whole and the parts.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "index.hpp"

namespace xpsql {

namespace {

constexpr size_t lanes = 4;

// Groups keys by shard in one counting sort; shard s holds the slices [s * 1024 / num_shards, (s + 1) * 1024 / num_shards).
// Quarters of the keys take turns, each with counts of its own, since counts of few shards would wait for each other.
nb::tuple partition(const In& keys, size_t num_shards) {
    const auto all = view<uint64_t>(keys, "keys");
    if (num_shards < 1 || num_shards > num_slices)
        throw nb::value_error(("num_shards must lie in [1, 1024], got " + std::to_string(num_shards)).c_str());
    if (all.size > INT32_MAX) throw nb::value_error("partition takes at most 2^31 - 1 keys");
    Result<uint64_t> grouped(all.size);
    Result<int32_t> order(all.size);
    Result<int64_t> starts(num_shards + 1);
    {
        nb::gil_scoped_release unlocked;
        const auto shard_of = [num_shards](uint64_t key) { return (key >> slice_shift) * num_shards / num_slices; };
        const size_t quarter = (all.size + lanes - 1) / lanes;
        const auto each = [&](auto visit) {
            for (size_t i = 0; i < quarter; ++i)
                for (size_t lane = 0, at = i; lane < lanes && at < all.size; ++lane, at += quarter)
                    visit(at, shard_of(all[at]) * lanes + lane);
        };
        std::vector<size_t> next(num_shards * lanes);
        each([&](size_t, size_t place) { ++next[place]; });
        size_t end = 0;
        for (size_t place = 0; place < next.size(); ++place) {
            if (place % lanes == 0) starts[place / lanes] = static_cast<int64_t>(end);
            end += std::exchange(next[place], end);
        }
        starts[num_shards] = static_cast<int64_t>(end);
        each([&](size_t at, size_t place) {
            const size_t to = next[place]++;
            grouped[to] = all[at];
            order[to] = static_cast<int32_t>(at);
        });
    }
    return nb::make_tuple(grouped.take(all.size), order.take(all.size), starts.take(num_shards + 1));
}

// The rows of an array of any type, as bytes.
template <class Byte>
struct Rows {
    Byte* data;
    size_t count, bytes;
};

template <class Byte, class Array>
Rows<Byte> rows_of(const Array& array, const char* name) {
    int64_t stride = 1;
    bool fits = array.ndim() >= 1;
    for (size_t i = array.ndim(); i-- > 0;) {
        fits = fits && (array.shape(i) <= 1 || array.size() == 0 || array.stride(i) == stride);
        stride *= static_cast<int64_t>(array.shape(i));
    }
    if (!fits) throw nb::value_error((std::string(name) + " must be C-contiguous with one axis or more, got " + describe(array)).c_str());
    const size_t count = array.shape(0);
    size_t bytes = array.itemsize();
    for (size_t i = 1; i < array.ndim(); ++i) bytes *= array.shape(i);
    return {reinterpret_cast<Byte*>(array.data()), count, bytes};
}

template <class Move>
void with_bytes(size_t bytes, Move move) {
    switch (bytes) {
        case 2: return move(std::integral_constant<size_t, 2>{});
        case 4: return move(std::integral_constant<size_t, 4>{});
        case 8: return move(std::integral_constant<size_t, 8>{});
        case 16: return move(std::integral_constant<size_t, 16>{});
        case 32: return move(std::integral_constant<size_t, 32>{});
        case 64: return move(std::integral_constant<size_t, 64>{});
        default: return move(bytes);
    }
}

void check_positions(const Span<const int32_t>& positions, size_t rows) {
    const auto inside = [rows](int32_t position) { return position >= 0 && static_cast<size_t>(position) < rows; };
    uint32_t outside = 0;  // its top bit is set by a position below 0 or above the last: no comparison, which compilers vectorise worse
    const auto last = static_cast<uint32_t>(std::min<size_t>(rows, size_t{INT32_MAX} + 1) - 1);
    for (size_t i = 0; i < positions.size; ++i) {
        const auto position = static_cast<uint32_t>(positions[i]);
        outside |= position | (last - position);
    }
    if (outside >> 31 == 0) return;
    for (size_t i = 0; i < positions.size; ++i)
        if (!inside(positions[i]))
            throw nb::index_error(("positions must lie in [0, " + std::to_string(rows) + "), got " + std::to_string(positions[i])).c_str());
}

void check_rows(size_t to_bytes, size_t from_bytes, size_t rows, size_t needed) {
    if (to_bytes == from_bytes && rows >= needed) return;
    throw nb::value_error(("expected at least " + std::to_string(needed) + " rows of " + std::to_string(from_bytes) + " bytes, got " +
                           std::to_string(rows) + " of " + std::to_string(to_bytes)).c_str());
}

void take_rows(const In& values, const In& positions, const Out& out) {
    const auto from = rows_of<const uint8_t>(values, "values");
    const auto to = rows_of<uint8_t>(out, "out");
    const auto where = view<int32_t>(positions, "positions");
    check_rows(to.bytes, from.bytes, to.count, where.size);
    nb::gil_scoped_release unlocked;
    check_positions(where, from.count);
    with_bytes(from.bytes, [&](auto bytes) {
        for (size_t i = 0; i < where.size; ++i)
            std::memcpy(to.data + i * bytes, from.data + static_cast<size_t>(where[i]) * bytes, bytes);
    });
}

void put_rows(const Out& out, const In& positions, const In& values) {
    const auto to = rows_of<uint8_t>(out, "out");
    const auto from = rows_of<const uint8_t>(values, "values");
    const auto where = view<int32_t>(positions, "positions");
    check_rows(from.bytes, to.bytes, from.count, where.size);
    nb::gil_scoped_release unlocked;
    check_positions(where, to.count);
    with_bytes(to.bytes, [&](auto bytes) {
        for (size_t i = 0; i < where.size; ++i)
            std::memcpy(to.data + static_cast<size_t>(where[i]) * bytes, from.data + i * bytes, bytes);
    });
}

}  // namespace

void bind_placement(nb::module_& module) {
    using namespace nb::literals;
    module.def("partition", partition, "keys"_a, "num_shards"_a);
    module.def("take_rows", take_rows, "values"_a, "positions"_a, "out"_a);
    module.def("put_rows", put_rows, "out"_a, "positions"_a, "values"_a);
}

}  // namespace xpsql
