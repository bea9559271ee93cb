// The features of rows in Arrow's memory.
#pragma once

#include <cstdio>

#include "arrow.hpp"
#include "decimal.hpp"
#include "features.hpp"

namespace xpsql {

// What this reads no values of; whoever has the rows takes another way.
struct Unsupported {};

namespace from_arrow {

using arrow::View;

// Calls put(i, key) or absent(i) for the values begin to end of an array of categories.
template <class Put, class Absent>
void keys(const View& view, const FeatureColumn& column, size_t begin, size_t end, Put put, Absent absent);

inline uint64_t integer_key(int64_t value, const FeatureColumn& column) {
    if (column.raw) return raw_key(static_cast<uint64_t>(value));
    if (column.hashed) return xxh64::hash_int64(static_cast<uint64_t>(value), column.seed);
    char text[max_decimal];
    const size_t size = write_decimal(value, text);
    return xxh64::hash_bytes(reinterpret_cast<const uint8_t*>(text), size, column.seed);
}

// Days since 1970 as ISO text, years 0000 to 9999.
//
// Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
inline uint64_t date_key(int32_t days, const FeatureColumn& column) {
    const int64_t z = int64_t(days) + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    const auto day_of_era = static_cast<unsigned>(z - era * 146097);
    const unsigned year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100), m = (5 * day_of_year + 2) / 153;
    const unsigned day = day_of_year - (153 * m + 2) / 5 + 1, month = m < 10 ? m + 3 : m - 9;
    const int64_t year = int64_t(year_of_era) + era * 400 + (month <= 2);
    if (year < 0 || year > 9999) throw Unsupported{};
    char text[16];
    std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(year), month % 13, day % 32);
    return xxh64::hash_bytes(reinterpret_cast<const uint8_t*>(text), 10, column.seed);
}

template <class Offset, class Put, class Absent>
void text_keys(const View& view, const FeatureColumn& column, size_t begin, size_t end, Put put, Absent absent) {
    const size_t most = view.last<Offset>();
    for (size_t i = begin; i < end; ++i) {
        if (!view.valid(i)) {
            absent(i);
            continue;
        }
        const auto [from, to] = view.range<Offset>(i, most);
        put(i, xxh64::hash_bytes(view.bytes() + from, to - from, column.seed));
    }
}

template <class T, class Put, class Absent>
void integer_keys(const View& view, const FeatureColumn& column, size_t begin, size_t end, Put put, Absent absent) {
    for (size_t i = begin; i < end; ++i) view.valid(i) ? put(i, integer_key(static_cast<int64_t>(view.at<T>(i)), column)) : absent(i);
}

template <class Put, class Absent>
void keys(const View& view, const FeatureColumn& column, size_t begin, size_t end, Put put, Absent absent) {
    const std::string_view format = view.format();
    if (format == "u") return text_keys<int32_t>(view, column, begin, end, put, absent);
    if (format == "U") return text_keys<int64_t>(view, column, begin, end, put, absent);
    if (format == "l") return integer_keys<int64_t>(view, column, begin, end, put, absent);
    if (format == "i") return integer_keys<int32_t>(view, column, begin, end, put, absent);
    if (format == "s") return integer_keys<int16_t>(view, column, begin, end, put, absent);
    if (format == "c") return integer_keys<int8_t>(view, column, begin, end, put, absent);
    if (format == "b") {
        for (size_t i = begin; i < end; ++i) view.valid(i) ? put(i, boolean_key(view.bit(i), column.seed)) : absent(i);
        return;
    }
    if (format == "tdD") {
        for (size_t i = begin; i < end; ++i) view.valid(i) ? put(i, date_key(view.at<int32_t>(i), column)) : absent(i);
        return;
    }
    throw Unsupported{};
}

inline void null_key(KeyColumn& to, const FeatureColumn& column) {
    column.null_is_feature ? to.push(column.seed) : to.push_absent();
}

template <class Index>
void coded(const View& codes, const KeyColumn& words, const FeatureColumn& column, KeyColumn& to) {
    for (size_t i = 0; i < codes.size(); ++i) {
        if (!codes.valid(i)) {
            null_key(to, column);
            continue;
        }
        const auto code = static_cast<size_t>(codes.at<Index>(i));
        if (code >= words.keys.size()) throw std::invalid_argument("an index leaves its dictionary");
        words.is_there(code) ? to.push(words.keys[code]) : to.push_absent();
    }
}

inline KeyColumn categories(const ArrowSchema& schema, const ArrowArray& array, const FeatureColumn& column) {
    KeyColumn to;
    to.keys.reserve(static_cast<size_t>(array.length));
    const View view(schema, array);
    if (schema.dictionary) {
        const KeyColumn words = categories(*schema.dictionary, *array.dictionary, column);
        const std::string_view format = view.format();
        if (format == "i") coded<int32_t>(view, words, column, to);
        else if (format == "l") coded<int64_t>(view, words, column, to);
        else if (format == "s") coded<int16_t>(view, words, column, to);
        else if (format == "c") coded<int8_t>(view, words, column, to);
        else throw Unsupported{};
        return to;
    }
    keys(view, column, 0, view.size(), [&](size_t, uint64_t key) { to.push(key); }, [&](size_t) { null_key(to, column); });
    return to;
}

inline float number(const View& view, size_t i) {
    if (!view.valid(i)) return NAN;
    if (view.format() == "g") return static_cast<float>(view.at<double>(i));
    if (view.format() == "f") return view.at<float>(i);
    if (view.format() == "i") return static_cast<float>(view.at<int32_t>(i));
    if (view.format() == "l") return static_cast<float>(view.at<int64_t>(i));
    throw Unsupported{};
}

inline BagColumn bag(const ArrowSchema& schema, const ArrowArray& array, const FeatureColumn& column) {
    const View lists(schema, array);
    const bool map = lists.format() == "+m";
    if (schema.n_children != 1 || !(map || lists.format() == "+l") || map != (column.kind == FeatureColumn::Kind::weighted))
        throw Unsupported{};
    const ArrowSchema* keys_schema = schema.children[0];
    const ArrowArray* keys_array = array.children[0];
    if (map) {
        if (keys_array->n_children != 2 || keys_array->offset != 0) throw Unsupported{};
        keys_schema = schema.children[0]->children[0];
        keys_array = array.children[0]->children[0];
    }
    if (keys_schema->dictionary) throw Unsupported{};
    const View values(*keys_schema, *keys_array);
    const View weights = map ? View(*schema.children[0]->children[1], *array.children[0]->children[1]) : values;
    const size_t most = std::min(lists.last<int32_t>(), std::min(values.size(), weights.size()));
    BagColumn to;
    for (size_t b = 0; b < lists.size(); ++b) {
        if (lists.valid(b)) {
            const auto [begin, end] = lists.range<int32_t>(b, most);
            keys(values, column, begin, end,
                 [&](size_t i, uint64_t key) {
                     const float weight = map ? number(weights, i) : 1;
                     if (!std::isfinite(weight)) return;
                     to.keys.push_back(key);
                     to.weights.push_back(weight);
                 },
                 [](size_t) {});
        }
        to.ends.push_back(to.keys.size());
    }
    return to;
}

inline NumberColumn numbers(const ArrowSchema& schema, const ArrowArray& array, const FeatureColumn& column) {
    NumberColumn to;
    const View view(schema, array);
    if (column.kind == FeatureColumn::Kind::continuous) {
        for (size_t i = 0; i < view.size(); ++i) to.values.push_back(number(view, i));
        return to;
    }
    if (view.format() != "+l" || schema.n_children != 1) throw Unsupported{};
    const View elements(*schema.children[0], *array.children[0]);
    const size_t most = std::min(view.last<int32_t>(), elements.size());
    for (size_t b = 0; b < view.size(); ++b) {
        if (!view.valid(b)) {
            to.values.resize(to.values.size() + column.dim, NAN);
            continue;
        }
        const auto [begin, end] = view.range<int32_t>(b, most);
        if (end - begin != column.dim) throw Unsupported{};  // reported where the error names the row
        for (size_t i = begin; i < end; ++i) to.values.push_back(number(elements, i));
    }
    return to;
}

}  // namespace from_arrow

// The features of a record batch. `order`: the child of each column.
inline Features arrow_features(const ArrowSchema& schema, const ArrowArray& array, const std::vector<FeatureColumn>& columns,
                               const std::vector<size_t>& order) {
    using Kind = FeatureColumn::Kind;
    Features features;
    features.rows = static_cast<size_t>(array.length);
    for (const bool vectors : {false, true})
        for (size_t c = 0; c < columns.size(); ++c) {
            const FeatureColumn& column = columns[c];
            const ArrowSchema& own = *schema.children[order[c]];
            const ArrowArray& values = *array.children[order[c]];
            if (values.length != array.length) throw std::invalid_argument("columns must have as many values as the batch has rows");
            if ((column.kind == Kind::vector) != vectors) continue;
            switch (column.kind) {
                case Kind::categorical: features.categorical.push_back(from_arrow::categories(own, values, column)); break;
                case Kind::multi:
                case Kind::weighted: features.bags.push_back(from_arrow::bag(own, values, column)); break;
                default: features.numbers.push_back(from_arrow::numbers(own, values, column));
            }
        }
    return features;
}

}  // namespace xpsql
