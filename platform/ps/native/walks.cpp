// What looks further than one edge: random walks, triangles.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "edges.hpp"

namespace xpsql {

namespace {

// Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014: the mixing of SplitMix64.
uint64_t mixed(uint64_t value) {
    value += 0x9E3779B97F4A7C15u;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

double fraction(uint64_t random) { return static_cast<double>(random >> 11) * 0x1p-53; }

// How walks go: by weights, and by where they came from.
class Steps {
  public:
    Steps(const Groups& groups, const double* cumulative, double back, double away)
        : groups_(groups), cumulative_(cumulative), back_(1 / back), away_(1 / away), most_(std::max({1.0, back_, away_})) {}

    // The vertex after `at`, where `before` is the one before it, -1 at the beginning; -1 where no edge leads on.
    //
    // Source: Grover and Leskovec, "node2vec", KDD 2016; drawn by rejection as in Yang et al., "KnightKing", SOSP 2019.
    int32_t next(int32_t before, int32_t at, uint64_t random) const {
        if (groups_.degree(at) == 0) return -1;
        while (true) {
            random = mixed(random);
            const int32_t to = drawn(at, fraction(random));
            if (before < 0 || (back_ == 1 && away_ == 1)) return to;
            random = mixed(random);
            const bool near = to == before || std::binary_search(groups_.begin(before), groups_.end(before), to);
            const double chance = to == before ? back_ : near ? 1 : away_;
            if (fraction(random) * most_ < chance) return to;
        }
    }

    bool ends(size_t v) const {
        return groups_.degree(v) == 0 || (cumulative_ && !(cumulative_[groups_.offsets[v + 1] - 1] > 0));
    }

  private:
    int32_t drawn(int32_t at, double share) const {
        const int32_t* begin = groups_.begin(at);
        if (!cumulative_) return begin[static_cast<size_t>(share * static_cast<double>(groups_.degree(at)))];
        const double* from = cumulative_ + groups_.offsets[at];
        const double* to = cumulative_ + groups_.offsets[at + 1];
        return begin[std::min(std::upper_bound(from, to, share * to[-1]), to - 1) - from];
    }

    const Groups& groups_;
    const double* cumulative_;
    double back_, away_, most_;
};

// The walks `numbers` of each start, int32[starts * numbers * length], padded by -1.
NumpyVector<int32_t> walks(const In& offsets_in, const In& others_in, const std::optional<In>& cumulative_in, const In& keys_in,
                           const In& starts_in, size_t numbers, size_t length, double p, double q, uint64_t seed) {
    const Groups groups(offsets_in, others_in);
    const auto keys = view<uint64_t>(keys_in, "keys", {static_cast<int64_t>(groups.size())});
    const auto starts = view<int32_t>(starts_in, "starts");
    for (size_t i = 0; i < starts.size; ++i)
        if (starts[i] < 0 || static_cast<size_t>(starts[i]) >= groups.size()) throw nb::value_error("starts must be vertices");
    const double* cumulative =
        cumulative_in ? view<double>(*cumulative_in, "cumulative", {static_cast<int64_t>(groups.others.size)}).data : nullptr;
    const size_t all = product(product(starts.size, numbers), length);
    Result<int32_t> found(all);
    {
        nb::gil_scoped_release unlocked;
        const Steps steps(groups, cumulative, p, q);
        in_pieces(starts.size * numbers, 256, [&](size_t begin, size_t end) {
            for (size_t walk = begin; walk < end; ++walk) {
                int32_t before = -1, at = starts[walk / numbers];
                const uint64_t own = mixed(mixed(mixed(seed) ^ keys[at]) ^ (walk % numbers));
                for (size_t step = 0; step < length; ++step) {
                    found[walk * length + step] = at;
                    if (at < 0) continue;
                    const int32_t next = steps.ends(at) ? -1 : steps.next(before, at, mixed(own ^ step));
                    before = at;
                    at = next;
                }
            }
        });
    }
    return found.take(all);
}

// How many triangles each vertex is in, counted by those edges whose lower end is vertex number `part`, + `parts`, ...
//
// Groups are those of an undirected graph as `tidy` leaves them. Source: Latapy, "Main-memory triangle computations for very
// large (sparse (power-law)) graphs", Theoretical Computer Science 2008.
NumpyVector<int64_t> triangles(const In& offsets_in, const In& others_in, size_t part, size_t parts) {
    const Groups groups(offsets_in, others_in);
    if (parts == 0 || part >= parts) throw nb::value_error("part must be one of parts");
    Result<int64_t> counts(groups.size());
    {
        nb::gil_scoped_release unlocked;
        const size_t n = groups.size();
        std::memset(counts.data(), 0, n * sizeof(int64_t));
        std::vector<int64_t> offsets(n + 1);
        const auto above = [&](size_t v, int32_t u) {
            const size_t own = groups.degree(v), other = groups.degree(u);
            return other != own ? other > own : u > static_cast<int32_t>(v);
        };
        for (size_t v = 0; v < n; ++v)
            offsets[v + 1] = offsets[v] + std::count_if(groups.begin(v), groups.end(v), [&](int32_t u) { return above(v, u); });
        std::vector<int32_t> up(static_cast<size_t>(offsets[n]));
        each_vertex(n, [&](size_t v) {
            std::copy_if(groups.begin(v), groups.end(v), up.begin() + offsets[v], [&](int32_t u) { return above(v, u); });
        });
        const auto add = [&](size_t v, int64_t more) { __atomic_fetch_add(counts.data() + v, more, __ATOMIC_RELAXED); };
        in_pieces(part < n ? (n - part + parts - 1) / parts : 0, 256, [&](size_t begin, size_t end) {
            for (size_t at = begin; at < end; ++at) {
                const size_t v = part + at * parts;
                int64_t own = 0;
                for (int64_t e = offsets[v]; e < offsets[v + 1]; ++e) {
                    const auto u = static_cast<size_t>(up[e]);
                    int64_t with = 0, a = offsets[v], b = offsets[u];
                    while (a < offsets[v + 1] && b < offsets[u + 1]) {
                        if (up[a] == up[b]) {
                            add(up[a], 1);
                            ++with, ++a, ++b;
                        } else if (up[a] < up[b]) {
                            ++a;
                        } else {
                            ++b;
                        }
                    }
                    if (with) add(u, with);
                    own += with;
                }
                if (own) add(v, own);
            }
        });
    }
    return counts.take(groups.size());
}

}  // namespace

void bind_walks(nb::module_& module) {
    using namespace nb::literals;
    module.def("walks", walks, "offsets"_a, "others"_a, "cumulative"_a.none(), "keys"_a, "starts"_a, "numbers"_a, "length"_a,
               "p"_a, "q"_a, "seed"_a);
    module.def("triangles", triangles, "offsets"_a, "others"_a, "part"_a, "parts"_a);
}

}  // namespace xpsql
