// Messages as bytes, by their declared types; platform/ps/transport/codec.py specifies the format and describes the types.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "codec.hpp"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the format is little-endian, and so must be the machine"
#endif

namespace xpsql {

nb::object checked(PyObject* made) {
    if (made == nullptr) throw nb::python_error();
    return nb::steal(made);
}

View::View(nb::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, flags) < 0) throw nb::python_error();
}

namespace {

constexpr size_t most_axes = 8;

std::string text(const nb::object& value) { return nb::str(nb::handle(value)).c_str(); }

// What NumPy is asked for; the codes of dtypes are positions in `dtypes`.
struct Numpy {
    nb::object ndarray, asarray;
    std::vector<nb::object> dtypes;
    std::vector<char> kinds;
    std::vector<size_t> item_bytes;
    std::vector<std::string> names;

    explicit Numpy(const nb::sequence& known) {
        const auto module = nb::module_::import_("numpy");
        ndarray = module.attr("ndarray");
        asarray = module.attr("asarray");
        for (const auto dtype : known) {
            dtypes.push_back(nb::borrow(dtype));
            kinds.push_back(text(dtype.attr("kind")).front());
            item_bytes.push_back(nb::cast<size_t>(dtype.attr("itemsize")));
            names.push_back(text(nb::borrow(dtype)));
        }
    }

    // The code of what a buffer says of its items; the number of codes for any other.
    size_t code_of(const char* format, size_t bytes) const {
        for (size_t code = 0; format[1] == '\0' && code < kinds.size(); ++code)
            if (kinds[code] == kind_of(format[0]) && item_bytes[code] == bytes) return code;
        return kinds.size();
    }

  private:
    // NumPy's letter for what a format of Python's struct stands for.
    static char kind_of(char format) {
        if (std::strchr("bhilq", format)) return 'i';
        if (std::strchr("BHILQ", format)) return 'u';
        return std::strchr("efd", format) ? 'f' : format == '?' ? 'b' : '\0';
    }
};

}  // namespace

class Writer {
  public:
    explicit Writer(std::string head) : to_{std::move(head), 0, {}, 0}, head_bytes_(to_.head.size()) {}

    template <class T>
    void put(T value) {
        to_.head.append(reinterpret_cast<const char*>(&value), sizeof(T));
    }

    void put_string(const char* data, size_t size) {
        put(static_cast<uint32_t>(size));
        to_.head.append(data, size);
    }

    void put_array(View array) {
        if (array.size() == 0) return;
        to_.body_bytes += aligned(array.size());
        to_.arrays.push_back(std::move(array));
    }

    Written finish() {
        to_.contents_bytes = to_.head.size() - head_bytes_;
        to_.head.resize(head_bytes_ + aligned(to_.contents_bytes));
        return std::move(to_);
    }

  private:
    Written to_;
    size_t head_bytes_;
};

// Reads a table of contents within its bounds; anything beyond is a ValueError.
class Reader {
  public:
    Reader(nb::object rest, const uint8_t* data, size_t contents_bytes, size_t rest_bytes)
        : rest_(std::move(rest)), data_(data), size_(contents_bytes), body_(aligned(contents_bytes)), end_(rest_bytes) {
        if (body_ > end_) refuse("a frame ends after " + std::to_string(end_) + " bytes, its table of contents takes " + std::to_string(body_));
    }

    template <class T>
    T get() {
        T value;
        std::memcpy(&value, take(sizeof(T)), sizeof(T));
        return value;
    }

    // A count of entries or bytes; an entry may take no bytes, yet there are never more than bytes left, so memory is bounded.
    size_t count() {
        const size_t entries = get<uint32_t>();
        if (entries > size_ - at_)
            refuse("a table of contents counts " + std::to_string(entries) + " entries, more than its " + std::to_string(size_) +
                   " bytes can hold");
        return entries;
    }

    const char* take(size_t bytes) {
        if (bytes > size_ - at_) refuse("a table of contents ends after " + std::to_string(size_) + " bytes, expected more");
        at_ += bytes;
        return reinterpret_cast<const char*>(data_ + at_ - bytes);
    }

    // Room in the body for an array; returns where it starts.
    size_t reserve(size_t item_bytes, const std::vector<uint64_t>& shape) {
        uint64_t bytes = item_bytes;
        bool fits = true, empty = false;
        for (const uint64_t length : shape) {
            empty |= length == 0;
            fits &= !__builtin_mul_overflow(bytes, length ? length : 1, &bytes) && length <= INT64_MAX;
        }
        const size_t left = end_ - body_;
        if (!fits || (!empty && bytes > left))
            refuse("an array exceeds the " + std::to_string(left) + " bytes that are left");
        const size_t start = body_;
        if (!empty) body_ += aligned(bytes);
        if (body_ > end_) refuse("an array's gap exceeds the body");
        return start;
    }

    const nb::object& rest() const { return rest_; }

    void finish() const {
        if (at_ != size_ || body_ != end_)
            refuse("a message ends " + std::to_string(size_ - at_) + " + " + std::to_string(end_ - body_) + " bytes before its frame");
    }

    [[noreturn]] static void refuse(const std::string& reason) { throw nb::value_error(reason.c_str()); }

  private:
    nb::object rest_;
    const uint8_t* data_;
    size_t size_, body_, end_, at_ = 0;
};

class Type {
  public:
    virtual ~Type() = default;
    virtual void write(nb::handle value, Writer& to) const = 0;
    virtual nb::object read(Reader& from) const = 0;
};

namespace {

[[noreturn]] void refuse_type(const char* expected, nb::handle value) {
    throw nb::type_error((std::string("expected ") + expected + ", got " + nb::inst_name(value).c_str()).c_str());
}

using Types = std::unique_ptr<const Type>;

class Integer : public Type {
    void write(nb::handle value, Writer& to) const override {
        const long long number = PyLong_AsLongLong(value.ptr());
        if (number == -1 && PyErr_Occurred()) throw nb::python_error();
        to.put<int64_t>(number);
    }
    nb::object read(Reader& from) const override { return checked(PyLong_FromLongLong(from.get<int64_t>())); }
};

class Float : public Type {
    void write(nb::handle value, Writer& to) const override {
        const double number = PyFloat_AsDouble(value.ptr());
        if (number == -1 && PyErr_Occurred()) throw nb::python_error();
        to.put(number);
    }
    nb::object read(Reader& from) const override { return checked(PyFloat_FromDouble(from.get<double>())); }
};

class Truth : public Type {
    void write(nb::handle value, Writer& to) const override {
        const int truth = PyObject_IsTrue(value.ptr());
        if (truth < 0) throw nb::python_error();
        to.put<uint8_t>(truth != 0);
    }
    nb::object read(Reader& from) const override { return nb::bool_(flag(from)); }

  public:
    static bool flag(Reader& from) {
        const auto byte = from.get<uint8_t>();
        if (byte > 1) Reader::refuse("a truth value is " + std::to_string(byte));
        return byte == 1;
    }
};

class Text : public Type {
  public:
    void write(nb::handle value, Writer& to) const override {
        Py_ssize_t size;
        const char* data = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
        if (data == nullptr) throw nb::python_error();
        to.put_string(data, static_cast<size_t>(size));
    }
    nb::object read(Reader& from) const override {
        const size_t size = from.count();
        return checked(PyUnicode_DecodeUTF8(from.take(size), static_cast<Py_ssize_t>(size), "strict"));
    }
};

class Binary : public Type {
    void write(nb::handle value, Writer& to) const override {
        if (!PyBytes_Check(value.ptr())) refuse_type("bytes", value);
        to.put_string(PyBytes_AsString(value.ptr()), static_cast<size_t>(PyBytes_Size(value.ptr())));
    }
    nb::object read(Reader& from) const override {
        const size_t size = from.count();
        return checked(PyBytes_FromStringAndSize(from.take(size), static_cast<Py_ssize_t>(size)));
    }
};

class Array : public Type {
  public:
    Array(std::shared_ptr<const Numpy> numpy, int code) : numpy_(std::move(numpy)), code_(code) {}

    void write(nb::handle value, Writer& to) const override {
        const bool known = value.type().is(numpy_->ndarray);
        const nb::object array = known ? nb::borrow(value) : nb::object(numpy_->asarray(value, nb::arg("order") = "C"));
        View view = memory_of(array);
        const size_t code = numpy_->code_of(view->format, static_cast<size_t>(view->itemsize));
        if (code == numpy_->dtypes.size() || (code_ >= 0 && code != static_cast<size_t>(code_))) refuse(array);
        if (view->ndim > static_cast<int>(most_axes)) refuse_type("at most 8 axes", value);
        to.put(static_cast<uint8_t>(code));
        to.put(static_cast<uint8_t>(view->ndim));
        for (int axis = 0; axis < view->ndim; ++axis) to.put(static_cast<uint64_t>(view->shape[axis]));
        to.put_array(std::move(view));
    }

    nb::object read(Reader& from) const override {
        const size_t code = from.get<uint8_t>(), axes = from.get<uint8_t>();
        if (code >= numpy_->dtypes.size() || axes > most_axes)
            Reader::refuse("an array has type " + std::to_string(code) + " and " + std::to_string(axes) + " axes");
        if (code_ >= 0 && code != static_cast<size_t>(code_))
            Reader::refuse("expected an array of " + name() + ", got " + numpy_->names[code]);
        std::vector<uint64_t> shape(axes);
        const nb::object lengths = checked(PyTuple_New(static_cast<Py_ssize_t>(axes)));
        for (size_t axis = 0; axis < axes; ++axis) {
            shape[axis] = from.get<uint64_t>();
            PyTuple_SetItem(lengths.ptr(), static_cast<Py_ssize_t>(axis), checked(PyLong_FromUnsignedLongLong(shape[axis])).release().ptr());
        }
        const size_t start = from.reserve(numpy_->item_bytes[code], shape);
        const nb::object offset = checked(PyLong_FromSize_t(start));
        PyObject* arguments[] = {lengths.ptr(), numpy_->dtypes[code].ptr(), from.rest().ptr(), offset.ptr()};
        return checked(PyObject_Vectorcall(numpy_->ndarray.ptr(), arguments, 4, nullptr));
    }

  private:
    std::string name() const { return code_ < 0 ? "a simple type" : numpy_->names[static_cast<size_t>(code_)]; }

    // Copies an array that lies apart.
    View memory_of(const nb::object& array) const {
        constexpr int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT;
        try {
            return View(array, flags);
        } catch (nb::python_error&) {  // it lies apart, or is of a type that is no buffer's
        }
        try {
            return View(numpy_->asarray(array, nb::arg("order") = "C"), flags);
        } catch (nb::python_error&) {
            refuse(array);
        }
    }

    [[noreturn]] void refuse(const nb::object& array) const {
        throw nb::type_error(("expected an array of " + name() + ", got " + text(array.attr("dtype")) + text(array.attr("shape"))).c_str());
    }

    std::shared_ptr<const Numpy> numpy_;
    int code_;
};

class Maybe : public Type {
  public:
    explicit Maybe(Types of) : of_(std::move(of)) {}
    void write(nb::handle value, Writer& to) const override {
        to.put<uint8_t>(!value.is_none());
        if (!value.is_none()) of_->write(value, to);
    }
    nb::object read(Reader& from) const override { return Truth::flag(from) ? of_->read(from) : nb::none(); }

  private:
    Types of_;
};

class Many : public Type {
  public:
    explicit Many(Types of) : of_(std::move(of)) {}
    void write(nb::handle value, Writer& to) const override {
        if (!PyTuple_Check(value.ptr())) refuse_type("a tuple", value);
        to.put(static_cast<uint32_t>(nb::len(value)));
        for (const auto item : nb::borrow<nb::tuple>(value)) of_->write(item, to);
    }
    nb::object read(Reader& from) const override {
        const size_t count = from.count();
        const nb::object items = checked(PyTuple_New(static_cast<Py_ssize_t>(count)));
        for (size_t i = 0; i < count; ++i) PyTuple_SetItem(items.ptr(), static_cast<Py_ssize_t>(i), of_->read(from).release().ptr());
        return items;
    }

  private:
    Types of_;
};

class Named : public Type {
  public:
    explicit Named(Types of) : of_(std::move(of)) {}
    void write(nb::handle value, Writer& to) const override {
        nb::dict items;
        if (PyDict_Check(value.ptr())) {
            items = nb::borrow<nb::dict>(value);
        } else if (PyDict_Update(items.ptr(), value.ptr()) < 0) {
            throw nb::python_error();
        }
        to.put(static_cast<uint32_t>(nb::len(items)));
        for (const auto [name, item] : items) {
            text_.write(name, to);
            of_->write(item, to);
        }
    }
    nb::object read(Reader& from) const override {
        nb::dict items;
        for (size_t left = from.count(); left > 0; --left) {
            const nb::object name = text_.read(from);
            items[name] = of_->read(from);
        }
        return items;
    }

  private:
    Types of_;
    Text text_;
};

class Record : public Type {
  public:
    Record(nb::object made, std::vector<Types> fields) : made_(std::move(made)), fields_(std::move(fields)) {}
    void write(nb::handle value, Writer& to) const override {
        if (!value.type().is(made_)) refuse_type(text(made_.attr("__name__")).c_str(), value);
        for (size_t i = 0; i < fields_.size(); ++i) fields_[i]->write(PyTuple_GetItem(value.ptr(), static_cast<Py_ssize_t>(i)), to);
    }
    nb::object read(Reader& from) const override {
        const nb::object items = checked(PyTuple_New(static_cast<Py_ssize_t>(fields_.size())));
        for (size_t i = 0; i < fields_.size(); ++i)
            PyTuple_SetItem(items.ptr(), static_cast<Py_ssize_t>(i), fields_[i]->read(from).release().ptr());
        const nb::object arguments = nb::make_tuple(items);
        // tuple.__new__, which named tuples keep, without their own: no limited API has the type's slots by name.
        static const auto make = reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));
        return checked(make(reinterpret_cast<PyTypeObject*>(made_.ptr()), arguments.ptr(), nullptr));
    }

  private:
    nb::object made_;
    std::vector<Types> fields_;
};

// Makes a type of its description: its word, then what it is made of.
Types made(nb::handle description, const std::shared_ptr<const Numpy>& numpy) {
    const auto parts = nb::cast<nb::tuple>(description);
    const std::string word = nb::cast<std::string>(parts[0]);
    if (word == "int") return std::make_unique<Integer>();
    if (word == "float") return std::make_unique<Float>();
    if (word == "bool") return std::make_unique<Truth>();
    if (word == "str") return std::make_unique<Text>();
    if (word == "bytes") return std::make_unique<Binary>();
    if (word == "array") return std::make_unique<Array>(numpy, nb::cast<int>(parts[1]));
    if (word == "maybe") return std::make_unique<Maybe>(made(parts[1], numpy));
    if (word == "many") return std::make_unique<Many>(made(parts[1], numpy));
    if (word == "named") return std::make_unique<Named>(made(parts[1], numpy));
    if (word != "record") throw nb::value_error(("a type cannot be described as " + word).c_str());
    std::vector<Types> fields;
    for (const auto field : nb::cast<nb::tuple>(parts[2])) fields.push_back(made(field, numpy));
    return std::make_unique<Record>(parts[1], std::move(fields));
}

nb::tuple encoded(const Schema& schema, nb::handle message) {
    const Written to = schema.write(message, {});
    nb::list body;
    for (const View& array : to.arrays) {
        body.append(checked(PyMemoryView_FromObject(array.object().ptr())).attr("cast")("B"));
        if (const size_t gap = aligned(array.size()) - array.size()) body.append(nb::bytes(zeros, gap));
    }
    return nb::make_tuple(nb::bytes(to.head.data(), to.head.size()), to.contents_bytes, body);
}

}  // namespace

Schema::Schema(const nb::tuple& description, const nb::sequence& dtypes)
    : type_(made(description, std::make_shared<Numpy>(dtypes))) {}

Written Schema::write(nb::handle message, std::string head) const {
    Writer to(std::move(head));
    type_->write(message, to);
    return to.finish();
}

nb::object Schema::read(const nb::object& rest, size_t contents_bytes) const {
    const View bytes(rest, PyBUF_SIMPLE);
    Reader from(rest, bytes.data(), contents_bytes, bytes.size());
    nb::object message = type_->read(from);
    from.finish();
    return message;
}

void bind_codec(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<Schema>(module, "Schema")
        .def(nb::init<const nb::tuple&, const nb::sequence&>(), "description"_a, "dtypes"_a)
        .def("encode", &encoded, "message"_a)
        .def("decode", &Schema::read, "rest"_a, "contents_bytes"_a);
}

}  // namespace xpsql
