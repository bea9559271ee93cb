// Vertices numbered, edges grouped by one of their ends, and what programs of vertices combine along them.
//
// Whatever is combined is equal to the bit for any order of edges and any number of threads: sums are of integers.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "edges.hpp"
#include "prefetch.hpp"
#include "unique.hpp"

namespace xpsql {

namespace {

// Numbers keys by their first occurrence, over any number of calls.
class Numbers {
  public:
    template <class N>
    void number(const uint64_t* keys, size_t size, N* numbers) {
        reserve(keys_.size() + size);
        constexpr size_t ahead = 16;
        for (size_t i = 0; i < size; ++i) {
            if (i + ahead < size) prefetch(&table_[mix(keys[i + ahead]) >> (64 - bits_)]);
            numbers[i] = static_cast<N>(at(keys[i]));
        }
    }

    const std::vector<uint64_t>& keys() const { return keys_; }

  private:
    uint32_t at(uint64_t key) {
        const size_t mask = table_.size() - 1;
        size_t place = mix(key) >> (64 - bits_);
        while (table_[place] != 0 && keys_[table_[place] - 1] != key) place = (place + 1) & mask;
        if (table_[place] == 0) {
            keys_.push_back(key);
            table_[place] = static_cast<uint32_t>(keys_.size());
        }
        return table_[place] - 1;
    }

    void reserve(size_t keys) {
        if (table_.size() >= 2 * keys) return;
        while ((size_t{1} << bits_) < 2 * keys) ++bits_;
        table_.assign(size_t{1} << bits_, 0);
        const size_t mask = table_.size() - 1;
        for (size_t i = 0; i < keys_.size(); ++i) {
            size_t place = mix(keys_[i]) >> (64 - bits_);
            while (table_[place] != 0) place = (place + 1) & mask;
            table_[place] = static_cast<uint32_t>(i + 1);
        }
    }

    int bits_ = 4;
    std::vector<uint32_t> table_ = std::vector<uint32_t>(16);  // number + 1, 0 where free
    std::vector<uint64_t> keys_;
};

// The numbers of the vertices of a part.
class Numbering {
  public:
    NumpyVector<int32_t> number(const In& keys_in) {
        const auto keys = view<uint64_t>(keys_in, "keys");
        if (numbers_.keys().size() + keys.size > INT32_MAX)
            throw nb::value_error("a part of a graph has at most 2^31 - 1 vertices");
        Result<int32_t> found(keys.size);
        {
            nb::gil_scoped_release unlocked;
            numbers_.number(keys.data, keys.size, found.data());
        }
        return found.take(keys.size);
    }

    NumpyVector<uint64_t> keys() const {
        const auto& all = numbers_.keys();
        Result<uint64_t> copied(all.size());
        std::copy(all.begin(), all.end(), copied.data());
        return copied.take(all.size());
    }

  private:
    Numbers numbers_;
};

void check_ends(Span<const int32_t> ends, size_t vertices, const char* name) {
    for (size_t i = 0; i < ends.size; ++i)
        if (ends[i] < 0 || static_cast<size_t>(ends[i]) >= vertices)
            throw nb::value_error((std::string(name) + " must be numbers of vertices").c_str());
}

void count_ends(const In& ends_in, const Out& counts_in) {
    const auto ends = view<int32_t>(ends_in, "ends");
    const auto counts = view<int64_t>(counts_in, "counts");
    check_ends(ends, counts.size, "ends");
    nb::gil_scoped_release unlocked;
    for (size_t i = 0; i < ends.size; ++i) ++counts[ends[i]];
}

void sum_weights(const In& ends_in, const In& weights_in, const Out& limbs_in) {
    const auto ends = view<int32_t>(ends_in, "ends");
    const auto weights = view<float>(weights_in, "weights", {static_cast<int64_t>(ends.size)});
    check<int64_t>(limbs_in, "limbs", {any_length, 3});
    auto* limbs = static_cast<int64_t*>(limbs_in.data());
    check_ends(ends, limbs_in.shape(0), "ends");
    nb::gil_scoped_release unlocked;
    constexpr double scale = 2147483648.0;  // 2^31: the parts of a weight are exact, and so are their sums
    for (size_t i = 0; i < ends.size; ++i) {
        double rest = weights[i];
        int64_t* sum = limbs + 3 * ends[i];
        for (int limb = 0; limb < 3; ++limb) {
            const double whole = std::floor(rest);
            sum[limb] += static_cast<int64_t>(whole);
            rest = (rest - whole) * scale;
        }
    }
}

// Moves the other ends of some edges, and their weights, to their groups; `next` says where the next one of each group goes.
void place_edges(const In& groups_in, const In& others_in, const std::optional<In>& weights_in, const Out& next_in,
                 const Out& others_out_in, const std::optional<Out>& weights_out_in) {
    const auto groups = view<int32_t>(groups_in, "groups");
    const auto size = static_cast<int64_t>(groups.size);
    const auto others = view<int32_t>(others_in, "others", {size});
    const auto next = view<int64_t>(next_in, "next");
    const auto out = view<int32_t>(others_out_in, "others_out");
    check_ends(groups, next.size, "groups");
    if (weights_in.has_value() != weights_out_in.has_value()) throw nb::value_error("weights come and go together");
    const float* weights = weights_in ? view<float>(*weights_in, "weights", {size}).data : nullptr;
    float* weights_out =
        weights_out_in ? view<float>(*weights_out_in, "weights_out", {static_cast<int64_t>(out.size)}).data : nullptr;
    nb::gil_scoped_release unlocked;
    constexpr size_t ahead = 16;
    for (size_t i = 0; i < groups.size; ++i) {
        if (i + ahead < groups.size) prefetch(&next[groups[i + ahead]]);
        const int64_t at = next[groups[i]]++;
        if (at < 0 || at >= static_cast<int64_t>(out.size)) throw nb::value_error("next must lead into others_out");
        out[at] = others[i];
        if (weights) weights_out[at] = weights[i];
    }
}

// Groups whose members ascend, each once; the vertex itself is none where there are no loops.
nb::tuple tidy(const In& offsets_in, const In& others_in, bool loops) {
    const Groups all(offsets_in, others_in);
    Result<int64_t> offsets(all.size() + 1);
    Result<int32_t> others(all.others.size);
    std::vector<int64_t> left(all.size());
    {
        nb::gil_scoped_release unlocked;
        each_vertex(all.size(), [&](size_t v) {
            int32_t* begin = others.data() + all.offsets[v];
            int32_t* end = loops ? std::copy(all.begin(v), all.end(v), begin)
                                 : std::remove_copy(all.begin(v), all.end(v), begin, static_cast<int32_t>(v));
            std::sort(begin, end);
            left[v] = std::unique(begin, end) - begin;
        });
        offsets[0] = 0;
        for (size_t v = 0; v < all.size(); ++v) {
            std::memmove(others.data() + offsets[v], others.data() + all.offsets[v], left[v] * sizeof(int32_t));
            offsets[v + 1] = offsets[v] + left[v];
        }
    }
    const auto edges = static_cast<size_t>(offsets[all.size()]);
    return nb::make_tuple(offsets.take(all.size() + 1), others.take(edges));
}

NumpyVector<int64_t> sums_along(const In& offsets_in, const In& others_in, const In& values_in) {
    const Groups groups(offsets_in, others_in);
    const auto values = view<int64_t>(values_in, "values", {static_cast<int64_t>(groups.size())});
    Result<int64_t> sums(groups.size());
    {
        nb::gil_scoped_release unlocked;
        each_vertex(groups.size(), [&](size_t v) {
            uint64_t sum = 0;
            for (const int32_t* u = groups.begin(v); u < groups.end(v); ++u) sum += static_cast<uint64_t>(values[*u]);
            sums[v] = static_cast<int64_t>(sum);
        });
    }
    return sums.take(groups.size());
}

NumpyVector<int64_t> weighted_sums_along(const In& offsets_in, const In& others_in, const In& weights_in, const In& values_in) {
    const Groups groups(offsets_in, others_in);
    const auto weights = view<float>(weights_in, "weights", {static_cast<int64_t>(groups.others.size)});
    const auto values = view<double>(values_in, "values", {static_cast<int64_t>(groups.size())});
    Result<int64_t> sums(groups.size());
    {
        nb::gil_scoped_release unlocked;
        each_vertex(groups.size(), [&](size_t v) {
            uint64_t sum = 0;
            for (int64_t e = groups.offsets[v]; e < groups.offsets[v + 1]; ++e)
                sum += static_cast<uint64_t>(std::llrint(values[groups.others[e]] * weights[e]));
            sums[v] = static_cast<int64_t>(sum);
        });
    }
    return sums.take(groups.size());
}

NumpyVector<int64_t> extremes_along(const In& offsets_in, const In& others_in, const In& values_in, bool most) {
    const Groups groups(offsets_in, others_in);
    const auto values = view<int64_t>(values_in, "values", {static_cast<int64_t>(groups.size())});
    Result<int64_t> found(groups.size());
    {
        nb::gil_scoped_release unlocked;
        each_vertex(groups.size(), [&](size_t v) {
            int64_t best = most ? INT64_MIN : INT64_MAX;
            for (const int32_t* u = groups.begin(v); u < groups.end(v); ++u)
                best = most ? std::max(best, values[*u]) : std::min(best, values[*u]);
            found[v] = best;
        });
    }
    return found.take(groups.size());
}

// The least value of each vertex's connected component.
NumpyVector<int64_t> joined(const In& offsets_in, const In& others_in, const In& values_in) {
    const Groups groups(offsets_in, others_in);
    const auto values = view<int64_t>(values_in, "values", {static_cast<int64_t>(groups.size())});
    Result<int64_t> found(groups.size());
    {
        nb::gil_scoped_release unlocked;
        std::vector<int32_t> parent(groups.size());
        for (size_t v = 0; v < parent.size(); ++v) parent[v] = static_cast<int32_t>(v);
        const auto root = [&](int32_t v) {
            while (parent[v] != v) v = parent[v] = parent[parent[v]];
            return v;
        };
        for (size_t v = 0; v < groups.size(); ++v)
            for (const int32_t* u = groups.begin(v); u < groups.end(v); ++u) {
                const int32_t one = root(static_cast<int32_t>(v)), other = root(*u);
                parent[std::max(one, other)] = std::min(one, other);
            }
        for (size_t v = 0; v < groups.size(); ++v) {  // a root comes before its vertices
            const int32_t own = root(static_cast<int32_t>(v));
            found[v] = values[v];
            if (own != static_cast<int32_t>(v)) found[own] = std::min(found[own], values[v]);
        }
        for (size_t v = 0; v < groups.size(); ++v) found[v] = found[root(static_cast<int32_t>(v))];
    }
    return found.take(groups.size());
}

// The largest h such that h neighbours have a value of h or more, at most the vertex's own value.
NumpyVector<int64_t> h_index(const In& offsets_in, const In& others_in, const In& values_in) {
    const Groups groups(offsets_in, others_in);
    const auto values = view<int64_t>(values_in, "values", {static_cast<int64_t>(groups.size())});
    Result<int64_t> found(groups.size());
    {
        nb::gil_scoped_release unlocked;
        in_pieces(groups.size(), vertices_a_run, [&](size_t begin, size_t end) {
            std::vector<int64_t> counts;
            for (size_t v = begin; v < end; ++v) {
                const auto most = std::min<int64_t>(values[v], static_cast<int64_t>(groups.degree(v)));
                int64_t enough = 0;
                const int32_t* u = groups.begin(v);
                for (; u < groups.end(v) && enough < most; ++u) enough += values[*u] >= most;
                if (enough >= most) {
                    found[v] = most;
                    continue;
                }
                counts.assign(static_cast<size_t>(most) + 1, 0);
                for (u = groups.begin(v); u < groups.end(v); ++u) ++counts[std::max<int64_t>(0, std::min(values[*u], most))];
                int64_t h = most, above = 0;
                while (h > 0 && (above += counts[h]) < h) --h;
                found[v] = h;
            }
        });
    }
    return found.take(groups.size());
}

// The value that most neighbours have: of equally frequent ones the vertex's own, else the one whose hash with the salt is least.
NumpyVector<int64_t> most_frequent(const In& offsets_in, const In& others_in, const In& values_in, uint64_t salt) {
    const Groups groups(offsets_in, others_in);
    const auto values = view<int64_t>(values_in, "values", {static_cast<int64_t>(groups.size())});
    Result<int64_t> found(groups.size());
    {
        nb::gil_scoped_release unlocked;
        Numbers distinct;  // values as numbers from 0, whose counts lie in an array
        std::vector<uint32_t> number(groups.size());
        distinct.number(reinterpret_cast<const uint64_t*>(values.data), number.size(), number.data());
        const auto rank = [&](uint64_t value) { return 1 + (mix(mix(value + salt) + salt) >> 1); };
        in_pieces(groups.size(), vertices_a_run, [&](size_t begin, size_t end) {
            static thread_local std::vector<uint32_t> counts;  // zeros between calls
            if (counts.size() < distinct.keys().size()) counts.resize(distinct.keys().size());
            std::vector<uint32_t> near;
            for (size_t v = begin; v < end; ++v) {
                near.clear();
                uint32_t most = 0;
                for (const int32_t* u = groups.begin(v); u < groups.end(v); ++u) {
                    near.push_back(number[*u]);
                    most = std::max(most, ++counts[near.back()]);
                }
                found[v] = values[v];
                const bool keeps = counts[number[v]] == most;
                uint64_t least = UINT64_MAX;
                for (const uint32_t one : near) {
                    const bool chosen = !keeps && counts[one] == most;
                    counts[one] = 0;
                    if (!chosen) continue;
                    const uint64_t hash = rank(distinct.keys()[one]);
                    const auto value = static_cast<int64_t>(distinct.keys()[one]);
                    if (hash > least || (hash == least && value >= found[v])) continue;
                    least = hash;
                    found[v] = value;
                }
            }
        });
    }
    return found.take(groups.size());
}

}  // namespace

void bind_graph(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<Numbering>(module, "Numbering")
        .def(nb::init<>())
        .def("number", &Numbering::number, "keys"_a)
        .def("keys", &Numbering::keys);
    module.def("count_ends", count_ends, "ends"_a, "counts"_a);
    module.def("sum_weights", sum_weights, "ends"_a, "weights"_a, "limbs"_a);
    module.def("place_edges", place_edges, "groups"_a, "others"_a, "weights"_a.none(), "next"_a, "others_out"_a,
               "weights_out"_a.none());
    module.def("tidy", tidy, "offsets"_a, "others"_a, "loops"_a);
    module.def("sums_along", sums_along, "offsets"_a, "others"_a, "values"_a);
    module.def("weighted_sums_along", weighted_sums_along, "offsets"_a, "others"_a, "weights"_a, "values"_a);
    module.def("extremes_along", extremes_along, "offsets"_a, "others"_a, "values"_a, "most"_a);
    module.def("joined", joined, "offsets"_a, "others"_a, "values"_a);
    module.def("h_index", h_index, "offsets"_a, "others"_a, "values"_a);
    module.def("most_frequent", most_frequent, "offsets"_a, "others"_a, "values"_a, "salt"_a);
}

}  // namespace xpsql
