// Pairs of vertices: items that the same pairs of users took, and vertices with common neighbours.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <vector>

#include "edges.hpp"

namespace xpsql {

namespace {

struct Scored {
    int32_t item, other;
    int64_t score;
};

// The best other items of each item that is number `part`, + `parts`, ..., by scores in units of 2^-40, equal ones by their keys.
// score(item, sums, touched) adds up the scores of others, and notes those that it touches.
template <class Score>
nb::tuple best_pairs(size_t items, const uint64_t* keys, size_t top, size_t part, size_t parts, Score score) {
    if (parts == 0 || part >= parts) throw nb::value_error("part must be one of parts");
    constexpr size_t run = 64;
    const size_t own = part < items ? (items - part + parts - 1) / parts : 0;
    std::vector<std::vector<Scored>> found((own + run - 1) / run);
    size_t all = 0;
    {
        nb::gil_scoped_release unlocked;
        in_runs(own, run, [&](size_t begin, size_t end) {
            thread_local std::vector<int64_t> sums;  // zeros between items
            if (sums.size() < items) sums.assign(items, 0);
            std::vector<int32_t> touched;
            for (size_t at = begin; at < end; ++at) {
                const size_t item = part + at * parts;
                touched.clear();
                score(item, sums, touched);
                const size_t kept = std::min(top, touched.size());
                std::partial_sort(touched.begin(), touched.begin() + static_cast<std::ptrdiff_t>(kept), touched.end(),
                                  [&](int32_t one, int32_t two) {
                                      return sums[one] != sums[two] ? sums[one] > sums[two] : keys[one] < keys[two];
                                  });
                for (size_t i = 0; i < kept; ++i)
                    found[begin / run].push_back({static_cast<int32_t>(item), touched[i], sums[touched[i]]});
                for (const int32_t other : touched) sums[other] = 0;
            }
        });
        for (const auto& some : found) all += some.size();
    }
    Result<int32_t> item(all), other(all);
    Result<int64_t> scores(all);
    size_t i = 0;
    for (const auto& some : found)
        for (const Scored& one : some) {
            item[i] = one.item;
            other[i] = one.other;
            scores[i++] = one.score;
        }
    return nb::make_tuple(item.take(all), other.take(all), scores.take(all));
}

int64_t in_units(double score) { return std::max<int64_t>(1, std::llrint(score * 0x1p40)); }

// Pairs of items that users took who have little else in common.
//
// Source: Yang et al., "Large Scale Product Graph Construction for Recommendation in E-commerce", 2020, section 4.1.
nb::tuple swing(const In& item_offsets, const In& users_of_items, const In& user_offsets, const In& items_of_users,
                const In& factors_in, const In& keys_in, double alpha, size_t top, size_t part, size_t parts) {
    const Groups items(item_offsets, users_of_items), users(user_offsets, items_of_users);
    const auto n = static_cast<int64_t>(items.size());
    const auto factors = view<double>(factors_in, "factors", {n});
    const auto keys = view<uint64_t>(keys_in, "keys", {n});
    if (users.size() != items.size()) throw nb::value_error("items and users must be numbered together");
    return best_pairs(items.size(), keys.data, top, part, parts,
                      [&](size_t item, std::vector<int64_t>& sums, std::vector<int32_t>& touched) {
                          std::vector<int32_t> common;
                          for (const int32_t* u = items.begin(item); u < items.end(item); ++u)
                              for (const int32_t* v = items.begin(item); v < u; ++v) {
                                  common.clear();
                                  std::set_intersection(users.begin(*u), users.end(*u), users.begin(*v), users.end(*v),
                                                        std::back_inserter(common));
                                  const double share = factors[*u] * factors[*v] / (alpha + static_cast<double>(common.size()));
                                  const int64_t score = in_units(share);
                                  for (const int32_t other : common) {
                                      if (other == static_cast<int32_t>(item)) continue;
                                      if (sums[other] == 0) touched.push_back(other);
                                      sums[other] += score;
                                  }
                              }
                      });
}

// Pairs of vertices with common neighbours: the sum of what each of these weighs; where degrees are given, over all neighbours
// of either.
nb::tuple common_neighbours(const In& offsets, const In& middles_in, const In& middle_offsets, const In& ends_in,
                            const In& factors_in, const std::optional<In>& degrees_in, const In& keys_in, size_t top, size_t part,
                            size_t parts) {
    const Groups ends(offsets, middles_in), middles(middle_offsets, ends_in);
    const auto n = static_cast<int64_t>(ends.size());
    const auto factors = view<double>(factors_in, "factors", {n});
    const auto keys = view<uint64_t>(keys_in, "keys", {n});
    const int64_t* degrees = degrees_in ? view<int64_t>(*degrees_in, "degrees", {n}).data : nullptr;
    if (middles.size() != ends.size()) throw nb::value_error("ends and middles must be numbered together");
    return best_pairs(ends.size(), keys.data, top, part, parts,
                      [&](size_t vertex, std::vector<int64_t>& sums, std::vector<int32_t>& touched) {
                          for (const int32_t* u = ends.begin(vertex); u < ends.end(vertex); ++u) {
                              const int64_t weight = in_units(factors[*u]);
                              for (const int32_t* other = middles.begin(*u); other < middles.end(*u); ++other) {
                                  if (*other == static_cast<int32_t>(vertex)) continue;
                                  if (sums[*other] == 0) touched.push_back(*other);
                                  sums[*other] += weight;
                              }
                          }
                          if (!degrees) return;
                          for (const int32_t other : touched) {
                              const double both = static_cast<double>(sums[other]) * 0x1p-40;
                              const auto either = static_cast<double>(degrees[vertex] + degrees[other]) - both;
                              sums[other] = in_units(both / either);
                          }
                      });
}

}  // namespace

void bind_swing(nb::module_& module) {
    using namespace nb::literals;
    module.def("swing", swing, "item_offsets"_a, "users_of_items"_a, "user_offsets"_a, "items_of_users"_a, "factors"_a, "keys"_a,
               "alpha"_a, "top"_a, "part"_a, "parts"_a);
    module.def("common_neighbours", common_neighbours, "offsets"_a, "middles"_a, "middle_offsets"_a, "ends"_a, "factors"_a,
               "degrees"_a.none(), "keys"_a, "top"_a, "part"_a, "parts"_a);
}

}  // namespace xpsql
