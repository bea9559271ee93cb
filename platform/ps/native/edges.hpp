// Edges by the vertex at one of their ends, and runs of vertices that threads work on.
#pragma once

#include "arrays.hpp"
#include "parallel.hpp"

namespace xpsql {

constexpr size_t vertices_a_run = 4096;

// The ends of edges, grouped: those of group v lie from offsets[v] to offsets[v + 1].
struct Groups {
    Span<const int64_t> offsets;
    Span<const int32_t> others;

    Groups(const In& offsets_in, const In& others_in)
        : offsets(view<int64_t>(offsets_in, "offsets")), others(view<int32_t>(others_in, "others")) {
        if (offsets.size == 0 || offsets[0] != 0 || offsets[offsets.size - 1] != static_cast<int64_t>(others.size))
            throw nb::value_error("offsets must lead from 0 to the number of others");
        for (size_t v = 0; v + 1 < offsets.size; ++v)
            if (offsets[v] > offsets[v + 1]) throw nb::value_error("offsets must ascend");
        int32_t least = 0, most = -1;
        for (size_t e = 0; e < others.size; ++e) {
            least = std::min(least, others[e]);
            most = std::max(most, others[e]);
        }
        if (least < 0 || most >= static_cast<int64_t>(size())) throw nb::value_error("others must be numbers of vertices");
    }

    size_t size() const { return offsets.size - 1; }
    const int32_t* begin(size_t v) const { return others.data + offsets[v]; }
    const int32_t* end(size_t v) const { return others.data + offsets[v + 1]; }
    size_t degree(size_t v) const { return static_cast<size_t>(offsets[v + 1] - offsets[v]); }
};

// Calls act(v) for all vertices, on all threads.
template <class Act>
void each_vertex(size_t vertices, Act act) {
    in_pieces(vertices, vertices_a_run, [&](size_t begin, size_t end) {
        for (size_t v = begin; v < end; ++v) act(v);
    });
}

}  // namespace xpsql
