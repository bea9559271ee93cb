// The native decoders in libFuzzer's own loop, without a line of Python between two inputs. Inputs are as those of the targets of
// the same name in targets.py, which read the same corpus. scripts/fuzz compiles this into the native module, and
// tests/fuzz/__main__.py calls `fuzz`.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../platform/ps/native/arguments.hpp"
#include "../../platform/ps/native/codec.hpp"
#include "../../platform/ps/native/image.hpp"

extern "C" int LLVMFuzzerRunDriver(int* argc, char*** argv, int (*target)(const uint8_t*, size_t));

namespace {

namespace nb = nanobind;
using namespace xpsql;

// Bytes of an input, from its beginning; zeros beyond its end.
class Bytes {
  public:
    Bytes(const uint8_t* data, size_t size) : data_(data), left_(size) {}

    template <class T>
    T get() {
        T value{};
        const size_t count = std::min(sizeof(T), left_);
        if (count) std::memcpy(&value, data_, count);
        data_ += count;
        left_ -= count;
        return value;
    }

    const uint8_t* data() const { return data_; }
    size_t left() const { return left_; }

  private:
    const uint8_t* data_;
    size_t left_;
};

// A copy that ends where its memory does, so that a read beyond is seen.
std::unique_ptr<uint8_t[]> copied(const Bytes& from) {
    std::unique_ptr<uint8_t[]> copy(new uint8_t[from.left()]);
    if (from.left()) std::memcpy(copy.get(), from.data(), from.left());
    return copy;
}

nb::object seen(uint8_t* data, size_t size) {
    return checked(PyMemoryView_FromMemory(reinterpret_cast<char*>(data), static_cast<Py_ssize_t>(size), PyBUF_WRITE));
}

// What targets are given, as long as the process lives.
struct Given {
    std::vector<nb::object> schemas;
    nb::dict by_checksum;
    nb::object frames;                              // makes what cuts bytes into frames
    std::vector<std::shared_ptr<const Layout>> layouts;
};
Given* given;

// Whoever reads what was read, and writes it again, comes to no more bytes than there were.
void read_message(const Schema& schema, const nb::object& rest, size_t contents_bytes) {
    const nb::object message = schema.read(rest, contents_bytes);
    const size_t had = View(rest, PyBUF_SIMPLE).size();
    const Written again = schema.write(message, {});
    if (again.contents_bytes > contents_bytes || again.head.size() + again.body_bytes > had) std::abort();
}

void messages(Bytes from) {
    const auto& schemas = given->schemas;
    const auto number = from.get<uint8_t>();
    const auto contents_bytes = from.get<uint16_t>();
    const auto copy = copied(from);
    read_message(*nb::inst_ptr<Schema>(schemas[number % schemas.size()]), seen(copy.get(), from.left()), contents_bytes);
}

void frames(Bytes from) {
    const size_t step = 1 + size_t{from.get<uint8_t>()} * 7;
    const nb::object cut = given->frames();
    const nb::object take = cut.attr("take");
    const uint8_t* data = from.data();
    for (size_t left = from.left(); left > 0;) {
        const nb::object room = cut.attr("room")();
        nb::object frame = nb::none();
        {
            const View to(room, PyBUF_SIMPLE);
            const size_t count = std::min({to.size(), left, step});
            std::memcpy(const_cast<uint8_t*>(to.data()), data, count);
            data += count;
            left -= count;
            frame = take(count);
        }
        for (; !frame.is_none(); frame = take(0)) {
            const nb::object schema = given->by_checksum.attr("get")(frame.attr("checksum"));
            if (!schema.is_none())
                read_message(*nb::inst_ptr<Schema>(schema), frame.attr("rest"), nb::cast<size_t>(frame.attr("contents_bytes")));
        }
    }
}

// How many rows, then for each input how many axes, two lengths, and of how many bytes an item is.
void arguments(Bytes from) {
    const auto& layouts = given->layouts;
    const auto layout = layouts[from.get<uint8_t>() % layouts.size()];
    const auto size = from.get<uint64_t>();
    if (size > 4096 && size < uint64_t{1} << 58) return;  // more than the machine has, which is refused before: see service.py
    const Arguments memory(layout, size);
    nb::dict values;
    const auto copy = copied(from);
    for (const Input& input : layout->inputs()) {
        const auto kind = from.get<uint8_t>();
        const int axes = kind % 3;
        if (kind == 255) continue;
        if (kind == 254) {
            values[input.name.c_str()] = nb::none();
        } else if (input.is_number) {
            values[input.name.c_str()] = nb::int_(from.get<int64_t>());
        } else {
            Py_ssize_t shape[] = {from.get<uint16_t>(), from.get<uint8_t>()};
            const Py_ssize_t item = 1 + from.get<uint8_t>() % 16;
            const size_t bytes = static_cast<size_t>((axes > 0 ? shape[0] : 1) * (axes > 1 ? shape[1] : 1) * item);
            if (bytes > from.left()) continue;
            Py_buffer memory_of{};
            memory_of.buf = copy.get();
            memory_of.len = static_cast<Py_ssize_t>(bytes);
            memory_of.itemsize = item;
            memory_of.format = const_cast<char*>("B");
            memory_of.ndim = axes;
            memory_of.shape = shape;
            Py_ssize_t strides[] = {axes > 1 ? shape[1] * item : item, item};
            memory_of.strides = strides;
            values[input.name.c_str()] = checked(PyMemoryView_FromBuffer(&memory_of));
        }
    }
    memory.put(values);
    for (const auto array : memory.arrays(nb::none())) View(array, PyBUF_SIMPLE);
}

void image(Bytes from) {
    const auto key = from.get<uint64_t>();
    const auto copy = copied(from);
    if (from.left() >= sizeof(ImageHeader)) {
        ImageHeader header;
        std::memcpy(&header, copy.get(), sizeof header);
        header.magic = ImageHeader::expected_magic;
        header.format = ImageHeader::expected_format;
        std::memcpy(copy.get(), &header, sizeof header);
    }
    const Image made(copy.get(), from.left());
    const Layers layers(made, &made);
    std::vector<uint64_t> keys(40);
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = key + i * 0x9E3779B97F4A7C15u;
    std::vector<float> to(made.width()), room(layers.room(keys.size()));
    layers.find(keys.data(), keys.size(), room.data(), [&](size_t, const float* row) { std::copy(row, row + made.width(), to.begin()); });
}

void (*chosen)(Bytes);

int tried(const uint8_t* data, size_t size) {
    try {
        chosen(Bytes(data, size));
    } catch (const nb::builtin_exception&) {   // ValueError, TypeError
    } catch (const std::invalid_argument&) {   // the same, of what knows no Python
    } catch (const std::bad_alloc&) {
    } catch (nb::python_error& error) {
        if (!error.matches(PyExc_Exception) || error.matches(PyExc_SystemError)) std::abort();
    }
    return 0;
}

}  // namespace

// Runs a target until libFuzzer ends the process. Tables: schemas by checksum, how frames are begun, layouts.
extern "C" __attribute__((visibility("default"))) void fuzz(PyObject* name, PyObject* codecs, PyObject* frames_made, PyObject* layouts,
                                                            PyObject* options) {
    given = new Given;
    for (const auto [checksum, schema] : nb::borrow<nb::dict>(codecs)) {
        given->schemas.push_back(nb::borrow(schema));
        given->by_checksum[checksum] = schema;
    }
    given->frames = nb::borrow(frames_made);
    for (const auto layout : nb::borrow<nb::list>(layouts))
        given->layouts.emplace_back(nb::inst_ptr<Layout>(nb::borrow(layout).release()), [](const Layout*) {});
    const std::string wanted = nb::cast<std::string>(nb::handle(name));
    chosen = wanted == "frames" ? frames : wanted == "messages" ? messages : wanted == "arguments" ? arguments : image;
    std::vector<std::string> words;
    for (const auto word : nb::borrow<nb::list>(options)) words.push_back(nb::cast<std::string>(word));
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int argc = static_cast<int>(words.size());
    char** argv_data = argv.data();
    LLVMFuzzerRunDriver(&argc, &argv_data, tried);
}
