// Lines of an index that can be worked on at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace xpsql {

// The lowest and the highest row of a line.
struct Span {
    int32_t low = INT32_MAX, high = -1;
};

inline std::vector<Span> spans_of(const int32_t* index, size_t lines, size_t batch) {
    std::vector<Span> spans(lines);
    for (Span& span : spans)
        for (const int32_t* end = index + batch; index != end; ++index) {
            span.low = std::min(span.low, *index);
            span.high = std::max(span.high, *index);
        }
    return spans;
}

// Returns where runs of lines begin that have no row in common, and after them the end. The rows of a batch are numbered as they
// occur, line after line, so that most lines are a run each; those that share rows, if only that of what is absent, are one.
inline std::vector<size_t> disjoint(std::vector<Span> spans) {
    for (size_t l = spans.size(); l-- > 1;) spans[l - 1].low = std::min(spans[l - 1].low, spans[l].low);
    std::vector<size_t> begins = {0};
    int32_t high = -1;
    for (size_t l = 1; l < spans.size(); ++l) {
        high = std::max(high, spans[l - 1].high);
        if (high < spans[l].low) begins.push_back(l);
    }
    begins.push_back(spans.size());
    return begins;
}

}  // namespace xpsql
