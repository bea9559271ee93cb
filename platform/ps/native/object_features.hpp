// The features of rows that are dicts of Python, as JSON gives them. Only values of a column's own type are read here; who wrote
// them in another way takes the way that casts them.
#pragma once

#include <nanobind/nanobind.h>

#include "arrow_features.hpp"

namespace xpsql::from_objects {

inline uint64_t text_key(PyObject* value, const FeatureColumn& column) {
    Py_ssize_t size;
    const char* text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &size) : nullptr;
    if (!text) {
        PyErr_Clear();
        throw Unsupported{};
    }
    return xxh64::hash_bytes(reinterpret_cast<const uint8_t*>(text), static_cast<size_t>(size), column.seed);
}

inline int days_of(int year, int month) {
    constexpr int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

// Text that is a date as CAST AS STRING writes it.
inline uint64_t date_key(PyObject* value, const FeatureColumn& column) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &size) : nullptr;
    const auto digits = [&](int at, int count) {
        int number = 0;
        for (int i = at; i < at + count; ++i) {
            if (text[i] < '0' || text[i] > '9') throw Unsupported{};
            number = 10 * number + text[i] - '0';
        }
        return number;
    };
    if (!text || size != 10 || text[4] != '-' || text[7] != '-') {
        PyErr_Clear();
        throw Unsupported{};
    }
    const int year = digits(0, 4), month = digits(5, 2), day = digits(8, 2);
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_of(year, month)) throw Unsupported{};
    return xxh64::hash_bytes(reinterpret_cast<const uint8_t*>(text), 10, column.seed);
}

inline int64_t whole(PyObject* value, int64_t least, int64_t most) {
    int overflow = 0;
    const long long number = PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : (overflow = 1);
    if (overflow || number < least || number > most) throw Unsupported{};
    return number;
}

inline uint64_t key(PyObject* value, const FeatureColumn& column) {
    switch (column.type) {
        case 's': return text_key(value, column);
        case 'd': return date_key(value, column);
        case 'b':
            if (!PyBool_Check(value)) throw Unsupported{};
            return boolean_key(value == Py_True, column.seed);
        case 'l': return from_arrow::integer_key(whole(value, INT64_MIN, INT64_MAX), column);
        case 'i': return from_arrow::integer_key(whole(value, INT32_MIN, INT32_MAX), column);
        case 'h': return from_arrow::integer_key(whole(value, INT16_MIN, INT16_MAX), column);
        case 'c': return from_arrow::integer_key(whole(value, INT8_MIN, INT8_MAX), column);
        default: throw Unsupported{};
    }
}

inline float number(PyObject* value) {
    if (value == Py_None) return NAN;
    if (PyFloat_CheckExact(value)) return static_cast<float>(PyFloat_AsDouble(value));
    return static_cast<float>(static_cast<double>(whole(value, INT64_MIN, INT64_MAX)));
}

// Calls with(value) for the value of a column in each row.
template <class With>
void each(PyObject* const* rows, size_t count, PyObject* name, With with) {
    for (size_t i = 0; i < count; ++i) {
        PyObject* value = PyDict_GetItemWithError(rows[i], name);
        if (!value) {
            PyErr_Clear();
            throw Unsupported{};  // another spelling, or none
        }
        with(value);
    }
}

inline void append_bag(PyObject* value, const FeatureColumn& column, BagColumn& to) {
    const auto put = [&](PyObject* element, float weight) {
        if (element == Py_None || !std::isfinite(weight)) return;
        to.keys.push_back(key(element, column));
        to.weights.push_back(weight);
    };
    if (value == Py_None) {
    } else if (column.kind == FeatureColumn::Kind::multi) {
        if (!PyList_CheckExact(value)) throw Unsupported{};
        for (Py_ssize_t i = 0; i < PyList_Size(value); ++i) put(PyList_GetItem(value, i), 1);
    } else {
        if (!PyDict_CheckExact(value) || column.type != 's') throw Unsupported{};
        PyObject *word, *weight;
        for (Py_ssize_t at = 0; PyDict_Next(value, &at, &word, &weight);) put(word, number(weight));
    }
    to.ends.push_back(to.keys.size());
}

inline void append_numbers(PyObject* value, const FeatureColumn& column, NumberColumn& to) {
    if (column.kind == FeatureColumn::Kind::continuous) return to.values.push_back(number(value));
    if (value == Py_None) return to.values.resize(to.values.size() + column.dim, NAN);
    if (!PyList_CheckExact(value) || static_cast<size_t>(PyList_Size(value)) != column.dim) throw Unsupported{};
    for (Py_ssize_t i = 0; i < PyList_Size(value); ++i) to.values.push_back(number(PyList_GetItem(value, i)));
}

// The features of rows, and of a dict of columns that all of them have in common.
inline Features features(PyObject* const* rows, size_t count, PyObject* context, const std::vector<FeatureColumn>& columns,
                         const std::vector<nanobind::str>& names) {
    using Kind = FeatureColumn::Kind;
    Features features;
    features.rows = count;
    for (const bool vectors : {false, true})
        for (size_t c = 0; c < columns.size(); ++c) {
            const FeatureColumn& column = columns[c];
            if ((column.kind == Kind::vector) != vectors) continue;
            PyObject* name = names[c].ptr();
            const bool shared = context && PyDict_Contains(context, name) == 1;
            if (shared && count && PyDict_Contains(rows[0], name) == 1) throw Unsupported{};  // in both, which is an error
            PyObject* const* from = shared ? &context : rows;
            const size_t size = shared ? 1 : count;
            switch (column.kind) {
                case Kind::categorical: {
                    KeyColumn to;
                    to.keys.reserve(size);
                    each(from, size, name, [&](PyObject* value) {
                        value == Py_None ? from_arrow::null_key(to, column) : to.push(key(value, column));
                    });
                    features.categorical.push_back(std::move(to));
                    break;
                }
                case Kind::multi:
                case Kind::weighted: {
                    BagColumn to;
                    each(from, size, name, [&](PyObject* value) { append_bag(value, column, to); });
                    features.bags.push_back(std::move(to));
                    break;
                }
                default: {
                    NumberColumn to;
                    each(from, size, name, [&](PyObject* value) { append_numbers(value, column, to); });
                    features.numbers.push_back(std::move(to));
                }
            }
        }
    return features;
}

}  // namespace xpsql::from_objects
