// Searches of long histories: which elements of a span a target is to see.
#include "search.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "wide.hpp"

namespace xpsql {

namespace {

using Ints = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Marks = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Found = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// One field of elements: the code of each, and the row of each code.
struct Field {
    const int32_t* codes;
    const int32_t* rows;
    size_t count;
    size_t size;

    int32_t row(int64_t place) const { return rows[codes[place]]; }
};

std::vector<Field> fields_of(const std::vector<Ints>& codes, const std::vector<Ints>& rows) {
    if (codes.size() != rows.size() || codes.empty()) throw std::invalid_argument("each field has codes and rows");
    std::vector<Field> found;
    for (size_t f = 0; f < codes.size(); ++f) found.push_back({codes[f].data(), rows[f].data(), codes[f].shape(0), rows[f].shape(0)});
    return found;
}

void check_spans(const Places& begin, const Places& end, const std::vector<Field>& fields) {
    if (begin.shape(0) != end.shape(0)) throw std::invalid_argument("spans have a begin and an end each");
    for (size_t i = 0; i < begin.shape(0); ++i) {
        const int64_t low = begin.data()[i], high = end.data()[i];
        if (low < 0 || high < low) throw std::invalid_argument("a span ends before it begins");
        for (const Field& field : fields) {
            if (low != high && static_cast<size_t>(high) > field.count) throw std::invalid_argument("a span leaves the elements");
        }
    }
}

struct Scored {
    float score;
    int64_t place;
};

// The better element is of a higher score or, of one score, newer.
bool better(const Scored& one, const Scored& other) {
    return one.score > other.score || (one.score == other.score && one.place > other.place);
}

bool there(const std::vector<Field>& fields, int64_t place, int32_t absent) {
    for (const Field& field : fields) {
        if (field.row(place) != absent) return true;
    }
    return false;
}

// Keeps the newest `recent` elements of a span that are there, and returns the place before them; what is kept is in `kept`.
int64_t keep_recent(const std::vector<Field>& fields, int64_t begin, int64_t end, int32_t absent, size_t recent,
                    std::vector<int64_t>& kept) {
    kept.clear();
    int64_t place = end;
    while (place > begin && kept.size() < recent) {
        --place;
        if (there(fields, place, absent)) kept.push_back(place);
    }
    return place;
}

void write_sorted(std::vector<int64_t>& kept, int64_t* out, size_t width) {
    std::sort(kept.begin(), kept.end());
    std::copy(kept.begin(), kept.end(), out);
    std::fill(out + kept.size(), out + width, int64_t{-1});
}

constexpr size_t ahead = 12;  // rows that are asked of memory before they are multiplied
constexpr size_t block = 16;  // elements that are looked at together

// The elements of a span: the row of each in each field, and the distinct rows of each field, for all queries that meet the span.
class SpanRows {
  public:
    SpanRows(const std::vector<Field>& fields, size_t count)
        : rows(fields.size()), distinct(fields.size()), fields_(fields), seen_(count) {}

    void take(int64_t low, int64_t high) {
        if (low == low_ && high == high_) return;
        low_ = low, high_ = high;
        for (size_t f = 0; f < fields_.size(); ++f) {
            rows[f].resize(size_t(high - low));
            distinct[f].resize(size_t(high - low));
            size_t count = 0;
            std::fill(seen_.begin(), seen_.end(), uint8_t{0});
            for (int64_t place = low; place < high; ++place) {
                const int32_t row = fields_[f].row(place);
                rows[f][size_t(place - low)] = row;
                distinct[f][count] = row;  // no branch, which nobody could foretell
                count += size_t(1 - seen_[size_t(row)]);
                seen_[size_t(row)] = 1;
            }
            distinct[f].resize(count);
        }
    }

    std::vector<std::vector<int32_t>> rows, distinct;

  private:
    const std::vector<Field>& fields_;
    std::vector<uint8_t> seen_;
    int64_t low_ = -1, high_ = -1;
};

// The inner product of a query's part with each row of some, at the row's place.
XPSQL_INLINE void products(const float* rows, const std::vector<int32_t>& some, size_t dim, const float* query, float* out) {
    for (size_t i = 0; i < some.size(); ++i) {
        const size_t row = size_t(some[i]);
        __builtin_prefetch(rows + size_t(some[std::min(i + ahead, some.size() - 1)]) * dim);
        const float* const own = rows + row * dim;
        float sums[8] = {};
        size_t d = 0;
        for (; d + 8 <= dim; d += 8) {
            for (size_t k = 0; k < 8; ++k) sums[k] += own[d + k] * query[d + k];
        }
        for (; d < dim; ++d) sums[d % 8] += own[d] * query[d];
        out[row] = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
    }
}

// What a query's part gives the elements of a span, added to what they have.
XPSQL_INLINE void add(const float* known, const std::vector<int32_t>& rows, size_t count, float* scores) {
    for (size_t i = 0; i < count; ++i) scores[i] += known[rows[i]];
}

XPSQL_INLINE void score(const float* vectors, const SpanRows& span, size_t count, size_t dim, const float* query,
                        std::vector<std::vector<float>>& known, float* scores) {
    std::fill(scores, scores + count, 0.0f);
    for (size_t f = 0; f < span.rows.size(); ++f) {
        products(vectors, span.distinct[f], dim, query + f * dim, known[f].data());
        add(known[f].data(), span.rows[f], count, scores);
    }
}

// The places of the `top` best of some scores; of those that are there, and no NaN.
template <class There>
void choose(const float* scores, size_t count, size_t top, There there, std::vector<Scored>& best) {
    float least = -std::numeric_limits<float>::infinity();
    const auto keep = [&] {
        if (best.size() <= top) return;
        std::nth_element(best.begin(), best.begin() + std::ptrdiff_t(top) - 1, best.end(), better);
        best.resize(top);
        least = best.back().score;
    };
    for (size_t end = count; end;) {
        const size_t begin = end > block ? end - block : 0;
        int some = 0;
        for (size_t i = begin; i < end; ++i) some |= scores[i] > least;
        // Later ones here are older, so that one of the same score does not take a place.
        for (size_t i = end; some && i-- > begin;) {
            if (!(scores[i] > least) || !there(i)) continue;
            best.push_back({scores[i], int64_t(i)});
            if (best.size() == 2 * top + block) keep();
        }
        end = begin;
    }
    keep();
}

void score_anywhere(const float* vectors, const SpanRows& span, size_t count, size_t dim, const float* query,
                    std::vector<std::vector<float>>& known, float* scores) {
    score(vectors, span, count, dim, query, known, scores);
}
XPSQL_WIDE void score_wide(const float* vectors, const SpanRows& span, size_t count, size_t dim, const float* query,
                           std::vector<std::vector<float>>& known, float* scores) {
    score(vectors, span, count, dim, query, known, scores);
}

}  // namespace

void choose_by_product(const Floats& rows, const std::vector<Ints>& codes, const std::vector<Ints>& tables, const Places& begin,
                       const Places& end, const Floats& queries, int32_t absent, size_t top, size_t recent, const Found& out) {
    const std::vector<Field> fields = fields_of(codes, tables);
    check_spans(begin, end, fields);
    const size_t batch = begin.shape(0), count = rows.shape(0), dim = rows.shape(1), width = top + recent;
    if (queries.shape(0) != batch || queries.shape(1) != fields.size() * dim || out.shape(0) != batch || out.shape(1) != width ||
        static_cast<size_t>(absent) >= count) {
        throw std::invalid_argument("queries, spans and what is found do not fit");
    }
    std::vector<std::vector<float>> known(fields.size(), std::vector<float>(count));
    SpanRows span(fields, count);
    const auto score = wide() ? score_wide : score_anywhere;
    std::vector<float> scores;
    std::vector<Scored> heap;
    std::vector<int64_t> kept;
    for (size_t i = 0; i < batch; ++i) {
        const int64_t low = begin.data()[i], high = end.data()[i];
        int64_t* found = out.data() + i * width;
        const int64_t stop = keep_recent(fields, low, high, absent, recent, kept);
        heap.clear();
        if (top && stop - low > static_cast<int64_t>(top)) {
            span.take(low, high);
            scores.resize(size_t(high - low));
            score(rows.data(), span, size_t(stop - low), dim, queries.data() + i * fields.size() * dim, known, scores.data());
            choose(scores.data(), size_t(stop - low), top, [&](size_t i) { return there(fields, low + int64_t(i), absent); }, heap);
            for (Scored& one : heap) one.place += low;
        } else {
            for (int64_t place = low; place < stop && top; ++place) {
                if (there(fields, place, absent)) heap.push_back({0, place});
            }
        }
        for (const Scored& one : heap) kept.push_back(one.place);
        write_sorted(kept, found, width);
    }
}

void choose_by_value(const std::vector<Ints>& codes, const std::vector<Ints>& tables, const Places& begin, const Places& end, size_t by,
                     const Ints& wanted, int32_t absent, size_t top, size_t recent, const Found& out) {
    const std::vector<Field> fields = fields_of(codes, tables);
    check_spans(begin, end, fields);
    const size_t batch = begin.shape(0), width = top + recent;
    if (by >= fields.size() || wanted.shape(0) != batch || out.shape(0) != batch || out.shape(1) != width) {
        throw std::invalid_argument("targets, spans and what is found do not fit");
    }
    std::vector<int64_t> kept;
    for (size_t i = 0; i < batch; ++i) {
        const int64_t low = begin.data()[i];
        const int64_t stop = keep_recent(fields, low, end.data()[i], absent, recent, kept);
        const int32_t row = wanted.data()[i];
        const size_t most = kept.size() + top;
        for (int64_t place = stop - 1; place >= low && row != absent && kept.size() < most; --place) {
            if (fields[by].row(place) == row) kept.push_back(place);
        }
        write_sorted(kept, out.data() + i * width, width);
    }
}

void mark_spans(const Ints& codes, const Places& begin, const Places& end, const Marks& out) {
    check_spans(begin, end, {{codes.data(), nullptr, codes.shape(0), 0}});
    for (size_t span = 0; span < begin.shape(0); ++span)
        for (int64_t place = begin.data()[span]; place < end.data()[span]; ++place) {
            int32_t& own = out.data()[codes.data()[place]];
            own = own < 0 ? static_cast<int32_t>(span) : own;
        }
}

void bind_search(nb::module_& module) {
    using namespace nb::literals;
    const auto without_lock = nb::call_guard<nb::gil_scoped_release>();
    module.def("choose_by_product", choose_by_product, without_lock, "rows"_a, "codes"_a, "tables"_a, "begin"_a, "end"_a, "queries"_a,
               "absent"_a, "top"_a, "recent"_a, "out"_a);
    module.def("mark_spans", mark_spans, without_lock, "codes"_a, "begin"_a, "end"_a, "out"_a);
    module.def("choose_by_value", choose_by_value, without_lock, "codes"_a, "tables"_a, "begin"_a, "end"_a, "by"_a, "wanted"_a,
               "absent"_a, "top"_a, "recent"_a, "out"_a);
}

}  // namespace xpsql
