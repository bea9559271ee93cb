// Bindings of Store: which columns, which arrays, and how their elements move.
#include "store.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>

#include "arguments.hpp"
#include "arrays.hpp"

namespace xpsql {

namespace {

using Description = std::tuple<std::string, std::string, size_t>;

Dtype parse_dtype(const std::string& name, const std::string& column) {
    if (name == "float32") return Dtype::float32;
    if (name == "uint32") return Dtype::uint32;
    if (name == "uint16") return Dtype::uint16;
    throw std::invalid_argument("column " + column + " must be float32, uint32 or uint16, got " + name);
}

std::vector<Column> parse_columns(const std::vector<Description>& descriptions) {
    std::vector<Column> columns;
    for (const auto& [name, dtype, dim] : descriptions) {
        if (dim == 0 || dim > (size_t{1} << 20))
            throw std::invalid_argument("column " + name + " must have a dim in [1, 2^20], got " + std::to_string(dim));
        columns.push_back({name, parse_dtype(dtype, name), dim});
    }
    return columns;
}

// Calls move(i, record's column) for each record, with the number of bytes known to the compiler for usual sizes.
template <size_t bytes>
struct Copy {
    static void out(uint8_t* to, const uint8_t* const* records, size_t count, size_t offset, size_t) {
        for (size_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, records[i] + offset, bytes);
    }
    static void in(const uint8_t* from, uint8_t* const* records, size_t count, size_t offset, size_t) {
        for (size_t i = 0; i < count; ++i) std::memcpy(records[i] + offset, from + i * bytes, bytes);
    }
};

struct CopyAny {
    static void out(uint8_t* to, const uint8_t* const* records, size_t count, size_t offset, size_t bytes) {
        for (size_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, records[i] + offset, bytes);
    }
    static void in(const uint8_t* from, uint8_t* const* records, size_t count, size_t offset, size_t bytes) {
        for (size_t i = 0; i < count; ++i) std::memcpy(records[i] + offset, from + i * bytes, bytes);
    }
};

template <class Use>
void with_copy(size_t bytes, Use use) {
    switch (bytes) {
        case 2: return use(Copy<2>{});
        case 4: return use(Copy<4>{});
        case 8: return use(Copy<8>{});
        case 12: return use(Copy<12>{});
        case 16: return use(Copy<16>{});
        case 32: return use(Copy<32>{});
        case 64: return use(Copy<64>{});
        default: return use(CopyAny{});
    }
}

// Columns and the arrays they are read into or written from.
template <class Byte>
struct Transfer {
    std::vector<const Column*> columns;
    std::vector<Byte*> arrays;
};

const Column& column_at(const Store& store, size_t number) {
    if (number < store.columns().size()) return store.columns()[number];
    throw nb::index_error(("column " + std::to_string(number) + " does not exist, the store has " +
                           std::to_string(store.columns().size())).c_str());
}

template <class T, class Array>
auto* rows_of(const Array& array, const Column& column, size_t n) {
    const bool flat = column.dim == 1 && array.ndim() == 1;
    const auto length = static_cast<int64_t>(array.ndim() > 0 && array.shape(0) > n ? array.shape(0) : n);
    const auto dim = static_cast<int64_t>(column.dim);
    const auto span = flat ? view<T>(array, column.name.c_str(), {length}) : view<T>(array, column.name.c_str(), {length, dim});
    return span.data;
}

template <class Byte, class Array>
Byte* bytes_of(const Array& array, const Column& column, size_t n) {
    switch (column.dtype) {
        case Dtype::float32: return reinterpret_cast<Byte*>(rows_of<float>(array, column, n));
        case Dtype::uint32: return reinterpret_cast<Byte*>(rows_of<uint32_t>(array, column, n));
        default: return reinterpret_cast<Byte*>(rows_of<uint16_t>(array, column, n));
    }
}

template <class Byte, class Array>
Transfer<Byte> transfer(const Store& store, const std::vector<size_t>& numbers, const std::vector<Array>& arrays, size_t n) {
    if (numbers.size() != arrays.size())
        throw nb::value_error(("expected one array for each of " + std::to_string(numbers.size()) + " columns, got " +
                               std::to_string(arrays.size())).c_str());
    Transfer<Byte> result;
    for (size_t i = 0; i < numbers.size(); ++i) {
        result.columns.push_back(&column_at(store, numbers[i]));
        result.arrays.push_back(bytes_of<Byte>(arrays[i], *result.columns.back(), n));
    }
    return result;
}

// Columns that are inputs of a program too, and their rows there.
Transfer<uint8_t> transfer(const Store& store, const Arguments& arguments) {
    Transfer<uint8_t> result;
    for (size_t i = 0; i < arguments.layout().inputs().size(); ++i) {
        const Input& input = arguments.layout().inputs()[i];
        for (const Column& column : store.columns()) {
            if (input.is_number || column.name != input.name) continue;
            if (column.bytes() != input.bytes) throw nb::type_error(("input " + input.name + " is not as the column").c_str());
            result.columns.push_back(&column);
            result.arrays.push_back(arguments.at(i));
        }
    }
    return result;
}

void check_room(size_t n, const Arguments& arguments) {
    if (n > arguments.size())
        throw nb::value_error(("the arguments have " + std::to_string(arguments.size()) + " rows, got " + std::to_string(n)).c_str());
}

// Sets what follows row n of the arrays to zeros.
void clear_after(const Transfer<uint8_t>& to, size_t n, size_t size) {
    for (size_t i = 0; i < to.columns.size(); ++i) {
        const size_t bytes = to.columns[i]->bytes();
        std::memset(to.arrays[i] + n * bytes, 0, (size - n) * bytes);
    }
}

auto copy_out(const Transfer<uint8_t>& to) {
    return [&to](size_t first, size_t count, const uint8_t* const* records) {
        for (size_t i = 0; i < to.columns.size(); ++i) {
            const size_t bytes = to.columns[i]->bytes();
            with_copy(bytes, [&](auto copy) {
                copy.out(to.arrays[i] + first * bytes, records, count, to.columns[i]->offset, bytes);
            });
        }
    };
}

NumpyVector<Row> lookup(const Store& store, const In& keys) {
    const auto all = view<uint64_t>(keys, "keys");
    Result<Row> rows(all.size);
    {
        nb::gil_scoped_release unlocked;
        store.lookup(all.data, all.size, rows.data());
    }
    return rows.take(all.size);
}

nb::tuple insert(Store& store, const In& keys) {
    const auto all = view<uint64_t>(keys, "keys");
    Result<Row> rows(all.size);
    Result<bool> created(all.size);
    {
        nb::gil_scoped_release unlocked;
        store.insert(all.data, all.size, rows.data(), created.data());
    }
    return nb::make_tuple(rows.take(all.size), created.take(all.size));
}

size_t evict(Store& store, const In& keys) {
    const auto all = view<uint64_t>(keys, "keys");
    nb::gil_scoped_release unlocked;
    return store.evict(all.data, all.size);
}

void gather(const Store& store, const In& rows, const std::vector<size_t>& columns, const std::vector<Out>& outs) {
    const auto all = view<Row>(rows, "rows");
    const auto to = transfer<uint8_t>(store, columns, outs, all.size);
    nb::gil_scoped_release unlocked;
    store.read(all.data, all.size, extent_of(to.columns), copy_out(to));
}

void gather_into(const Store& store, const In& rows, const Arguments& arguments) {
    const auto all = view<Row>(rows, "rows");
    const auto to = transfer(store, arguments);
    check_room(all.size, arguments);
    nb::gil_scoped_release unlocked;
    store.read(all.data, all.size, extent_of(to.columns), copy_out(to));
    clear_after(to, all.size, arguments.size());
}

NumpyVector<Row> pull(const Store& store, const In& keys, const Arguments& arguments) {
    const auto all = view<uint64_t>(keys, "keys");
    const auto to = transfer(store, arguments);
    check_room(all.size, arguments);
    Result<Row> rows(all.size);
    {
        nb::gil_scoped_release unlocked;
        store.pull(all.data, all.size, rows.data(), extent_of(to.columns), copy_out(to));
        clear_after(to, all.size, arguments.size());
    }
    return rows.take(all.size);
}

// Copies values into the columns of the records of one block.
void copy_in(const Transfer<const uint8_t>& from, size_t first, size_t count, uint8_t* const* records) {
    for (size_t i = 0; i < from.columns.size(); ++i) {
        const size_t bytes = from.columns[i]->bytes();
        with_copy(bytes, [&](auto copy) {
            copy.in(from.arrays[i] + first * bytes, records, count, from.columns[i]->offset, bytes);
        });
    }
}

void scatter(Store& store, const In& rows, const std::vector<size_t>& columns, const std::vector<In>& values) {
    const auto all = view<Row>(rows, "rows");
    const auto from = transfer<const uint8_t>(store, columns, values, all.size);
    nb::gil_scoped_release unlocked;
    store.write(all.data, all.size, extent_of(from.columns), [&](size_t first, size_t count, uint8_t* const* records) {
        copy_in(from, first, count, records);
    });
}

const Column& counter_at(const Store& store, size_t number) {
    const Column& column = column_at(store, number);
    if (column.dtype != Dtype::uint32 || column.dim != 1)
        throw nb::type_error(("column " + column.name + " must be uint32 of dim 1 to be counted in").c_str());
    return column;
}

// Counters of a record, and what each row's is changed by.
struct Counters {
    std::vector<const Column*> columns;
    std::vector<Broadcast<uint32_t>> values;

    Counters(const Store& store, const std::vector<size_t>& numbers, const std::vector<nb::object>& given, size_t n) {
        if (numbers.size() != given.size()) throw nb::value_error("update expects a value for each counter");
        for (size_t i = 0; i < numbers.size(); ++i) {
            columns.push_back(&counter_at(store, numbers[i]));
            values.emplace_back(given[i], columns.back()->name.c_str(), n);
        }
    }

    // Calls change(counter, value) for the records of one block.
    template <class Change>
    void each(size_t first, size_t count, uint8_t* const* records, Change change) const {
        for (size_t c = 0; c < columns.size(); ++c)
            for (size_t i = 0; i < count; ++i)
                change(*reinterpret_cast<uint32_t*>(records[i] + columns[c]->offset), values[c][first + i]);
    }
};

// Sets columns, adds to counters and raises others in one pass over the rows, whose lines are fetched once.
void update(Store& store, const In& rows, const std::vector<size_t>& columns, const std::vector<In>& values,
            const std::vector<size_t>& added, const std::vector<nb::object>& amounts, const std::vector<size_t>& raised,
            const std::vector<nb::object>& least) {
    const auto all = view<Row>(rows, "rows");
    const auto from = transfer<const uint8_t>(store, columns, values, all.size);
    const Counters sums(store, added, amounts, all.size), floors(store, raised, least, all.size);
    std::vector<const Column*> touched = from.columns;
    touched.insert(touched.end(), sums.columns.begin(), sums.columns.end());
    touched.insert(touched.end(), floors.columns.begin(), floors.columns.end());
    nb::gil_scoped_release unlocked;
    store.write(all.data, all.size, extent_of(touched), [&](size_t first, size_t count, uint8_t* const* records) {
        copy_in(from, first, count, records);
        sums.each(first, count, records, [](uint32_t& counter, uint32_t amount) {
            counter += std::min(amount, std::numeric_limits<uint32_t>::max() - counter);
        });
        floors.each(first, count, records, [](uint32_t& counter, uint32_t least) { counter = std::max(counter, least); });
    });
}

nb::tuple keys(const Store& store, size_t begin, size_t end) {
    if (begin > end || end > num_slices)
        throw nb::value_error(("slices must be a range within [0, 1024), got [" + std::to_string(begin) + ", " +
                               std::to_string(end) + ")").c_str());
    size_t size = 0;
    for (size_t slice = begin; slice < end; ++slice) size += store.slice_size(slice);
    Result<uint64_t> found(size);
    Result<Row> rows(size);
    {
        nb::gil_scoped_release unlocked;
        size_t at = 0;
        for (size_t slice = begin; slice < end; at += store.slice_size(slice++))
            store.slice(slice, found.data() + at, rows.data() + at);
    }
    return nb::make_tuple(found.take(size), rows.take(size));
}

nb::tuple scan(const Store& store, Row begin, Row end) {
    const size_t most = end > begin ? std::min(end, store.end()) - std::min(begin, store.end()) : 0;
    Result<uint64_t> found(most);
    Result<Row> rows(most);
    size_t size = 0;
    {
        nb::gil_scoped_release unlocked;
        store.scan(begin, end, [&](uint64_t key, Row row) {
            found[size] = key;
            rows[size++] = row;
        });
    }
    return nb::make_tuple(found.take(size), rows.take(size));
}

const char* dtype_name(Dtype dtype) {
    switch (dtype) {
        case Dtype::float32: return "float32";
        case Dtype::uint32: return "uint32";
        default: return "uint16";
    }
}

nb::list layout(const Store& store) {
    nb::list fields;
    for (const Column& column : store.columns())
        fields.append(nb::make_tuple(column.name, dtype_name(column.dtype), column.dim, column.offset));
    return fields;
}

void check_reader(size_t reader) {
    if (reader >= Snapshot::num_readers) throw nb::index_error("a snapshot is for reader 0 or 1");
}

// The keys evicted between the snapshot before for the same reader and the one that begins, and whether that one is of all rows.
nb::tuple begin_snapshot(Store& store, bool full, size_t reader) {
    check_reader(reader);
    if (store.snapshot().active()) throw std::runtime_error("a snapshot is being taken; take the rest of it, or cancel it");
    std::vector<uint64_t> gone;
    {
        nb::gil_scoped_release unlocked;
        full = store.snapshot().begin(full, reader, gone);
    }
    Result<uint64_t> keys(gone.size());
    std::copy(gone.begin(), gone.end(), keys.data());
    return nb::make_tuple(keys.take(gone.size()), full);
}

size_t pending(const Store& store, size_t reader) {
    check_reader(reader);
    return store.snapshot().pending(reader, store.size());
}

size_t take(Store& store, const Out& outs) {
    const auto to = view<uint8_t>(outs, "outs", {any_length, static_cast<int64_t>(store.row_bytes())});
    nb::gil_scoped_release unlocked;
    return store.snapshot().take(to.size / store.row_bytes(), to.data);
}

void put(Store& store, const In& records) {
    const size_t stride = store.row_bytes();
    const auto all = view<uint8_t>(records, "records", {any_length, static_cast<int64_t>(stride)});
    const size_t n = all.size / stride;
    nb::gil_scoped_release unlocked;
    std::vector<uint64_t> keys(n);
    for (size_t i = 0; i < n; ++i) std::memcpy(&keys[i], all.data + i * stride, sizeof keys[i]);
    store.put(keys.data(), all.data, n);
}

}  // namespace

void bind_store(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<Store>(module, "Store")
        .def("__init__", [](Store* self, const std::vector<Description>& columns) { new (self) Store(parse_columns(columns)); },
             "columns"_a)
        .def("__len__", &Store::size)
        .def("lookup", lookup, "keys"_a)
        .def("insert", insert, "keys"_a)
        .def("evict", evict, "keys"_a)
        .def("pull", pull, "keys"_a, "arguments"_a)
        .def("gather", gather, "rows"_a, "columns"_a, "outs"_a)
        .def("gather_into", gather_into, "rows"_a, "arguments"_a)
        .def("scatter", scatter, "rows"_a, "columns"_a, "values"_a)
        .def("update", update, "rows"_a, "columns"_a, "values"_a, "added"_a, "amounts"_a, "raised"_a, "least"_a)
        .def("keys", keys, "slice_begin"_a = 0, "slice_end"_a = num_slices)
        .def("scan", scan, "begin"_a, "end"_a)
        .def("begin_snapshot", begin_snapshot, "full"_a, "reader"_a = 0)
        .def("pending", pending, "reader"_a)
        .def("take", take, "outs"_a)
        .def("cancel_snapshot", [](Store& store) { store.snapshot().cancel(); })
        .def("put", put, "records"_a)
        .def_prop_ro("layout", layout)
        .def_prop_ro("kept_bytes", [](const Store& store) { return store.snapshot().kept_bytes(); })
        .def_prop_ro("end", &Store::end)
        .def_prop_ro("row_bytes", &Store::row_bytes)
        .def_prop_ro("memory_bytes", &Store::memory_bytes)
        .def_prop_ro("overhead_bytes", [](const Store& store) { return store.memory_bytes() - store.size() * store.column_bytes(); });
}

}  // namespace xpsql
