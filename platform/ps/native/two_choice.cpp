// Places for keys in a table of two choices: platform/images/layout.py has the format.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "image.hpp"

namespace xpsql {

namespace {

constexpr size_t places = Image::places;
constexpr size_t most_moves = 5000;
constexpr uint32_t nobody = UINT32_MAX;

// A key whose two buckets are full takes the place of one of theirs, which moves to its other bucket, and so on: cuckoo hashing
// with buckets, Dietzfelbinger and Weidling, "Balanced Allocation and Dictionaries with Tightly Packed Constant Size Bins", 2007.
NumpyVector<int64_t> place_two_choice(const In& keys_in, int64_t first_prime, int64_t second_prime) {
    const auto keys = view<uint64_t>(keys_in, "keys");
    if (second_prime < 1 || second_prime > first_prime) throw nb::value_error("primes must be positive, the larger one first");
    if (keys.size >= nobody) throw nb::value_error("place_two_choice takes fewer than 2^32 - 1 keys");
    Result<int64_t> out(keys.size);
    bool full = false;
    {
        nb::gil_scoped_release unlocked;
        std::vector<uint32_t> owner(static_cast<size_t>(first_prime) * places, nobody);
        const Remainder first(static_cast<uint64_t>(first_prime)), second(static_cast<uint64_t>(second_prime));
        uint64_t random = 0x9E3779B97F4A7C15u;
        const auto drawn = [&random] {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            return random;
        };
        const auto free_of = [&owner](size_t bucket) {
            const auto* begin = owner.data() + bucket * places;
            return static_cast<size_t>(std::find(begin, begin + places, nobody) - begin);
        };
        for (size_t i = 0; i < keys.size && !full; ++i) {
            uint32_t who = static_cast<uint32_t>(i);
            size_t moves = 0;
            for (;; ++moves) {
                const size_t buckets[2] = {first.of(keys[who]), second.of(keys[who])};
                const size_t free[2] = {free_of(buckets[0]), free_of(buckets[1])};
                const size_t chosen = free[0] == places;  // who looks for a key looks there first
                if (free[chosen] < places) {
                    owner[buckets[chosen] * places + free[chosen]] = who;
                    break;
                }
                if (moves == most_moves) break;
                const uint64_t bits = drawn() >> 32;
                std::swap(who, owner[buckets[bits & 1] * places + (bits >> 1) % places]);
            }
            full = moves == most_moves;
        }
        for (size_t place = 0; place < owner.size() && !full; ++place)
            if (owner[place] != nobody) out[owner[place]] = static_cast<int64_t>(place);
    }
    if (full) throw nb::value_error("a key finds no place: the table is too full");
    return out.take(keys.size);
}

}  // namespace

void bind_two_choice(nb::module_& module) {
    using namespace nb::literals;
    module.def("place_two_choice", place_two_choice, "keys"_a, "first_prime"_a, "second_prime"_a);
}

}  // namespace xpsql
