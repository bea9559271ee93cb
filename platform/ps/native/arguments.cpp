#include "arguments.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "codec.hpp"

namespace xpsql {

namespace {

constexpr size_t word_bytes = 4;

nb::dlpack::dtype parse_dtype(const std::string& name) {
    if (name == "float32") return nb::dtype<float>();
    if (name == "uint32") return nb::dtype<uint32_t>();
    if (name == "int32") return nb::dtype<int32_t>();
    if (name == "uint16") return nb::dtype<uint16_t>();
    if (name == "bool") return nb::dtype<bool>();
    throw nb::type_error(("an input must be float32, uint32, int32, uint16 or bool, got " + name).c_str());
}

void set_number(uint8_t* to, const Input& input, nb::handle value) {
    const auto write = [&](auto number) {
        if (!nb::try_cast(value, number)) refuse_value(input.name.c_str(), "a number of its type");
        std::memcpy(to, &number, sizeof number);
    };
    if (input.dtype == nb::dtype<float>()) return write(float{});
    if (input.dtype == nb::dtype<int32_t>()) return write(int32_t{});
    write(uint32_t{});
}

}  // namespace

Layout::Layout(const std::vector<Description>& numbers, const std::vector<Description>& words, const std::vector<Description>& apart)
    : num_numbers_(numbers.size()), num_words_(words.size()) {
    for (const auto& number : numbers) add(number, true, 0);
    for (const auto& word : words) add(word, false, 0);
    for (size_t i = 0; i < apart.size(); ++i) add(apart[i], false, i + 1);
    for (size_t i = 0; i < num_numbers_ + num_words_; ++i)
        if (inputs_[i].bytes != word_bytes) throw nb::value_error(("input " + inputs_[i].name + " is no word").c_str());
}

void Layout::add(const Description& description, bool is_number, size_t array) {
    const auto& [name, dtype, row] = description;
    const auto kind = parse_dtype(dtype);
    size_t bytes = kind.bits / 8;
    for (const size_t dim : row) bytes = product(bytes, dim);
    inputs_.push_back({name, kind, row, bytes, is_number, array});
}

Arguments::Arguments(std::shared_ptr<const Layout> layout, size_t size) : layout_(std::move(layout)), size_(size) {
    std::vector<size_t> places;
    size_t words = 0, end = aligned(product(words_size(), word_bytes));
    for (const Input& input : layout_->inputs()) {
        const size_t bytes = input.is_number ? word_bytes : product(input.bytes, size);
        size_t& at = input.array == 0 ? words : end;
        places.push_back(at);
        at = sum(at, input.array == 0 ? bytes : aligned(bytes));
    }
    memory_.reset(allocate_aligned<uint8_t>(end));
    for (const size_t place : places) starts_.push_back(memory_.get() + place);
}

void Arguments::put(const nb::dict& values) const {
    for (size_t i = 0; i < starts_.size(); ++i) {
        const Input& input = layout_->inputs()[i];
        PyObject* value = PyDict_GetItemString(values.ptr(), input.name.c_str());
        if (value == nullptr) continue;
        if (input.is_number) {
            set_number(starts_[i], input, value);
            continue;
        }
        if (value == Py_None) {
            std::memset(starts_[i], 0, size_ * input.bytes);
            continue;
        }
        const View rows(value, PyBUF_C_CONTIGUOUS);
        const size_t n = rows->ndim > 0 ? static_cast<size_t>(rows->shape[0]) : 0;
        if (n > size_ || rows.size() != n * input.bytes)
            throw nb::value_error(("input " + input.name + " has rows of " + std::to_string(input.bytes) + " bytes, at most " +
                                   std::to_string(size_) + " of them; got " + std::to_string(rows.size()) + " bytes for " +
                                   std::to_string(n)).c_str());
        if (n > 0) std::memcpy(starts_[i], rows.data(), rows.size());
        std::memset(starts_[i] + rows.size(), 0, size_ * input.bytes - rows.size());
    }
}

nb::object Arguments::array(uint8_t* data, const std::vector<size_t>& shape, nb::dlpack::dtype dtype, nb::handle owner) const {
    return nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, nullptr, dtype));
}

nb::list Arguments::arrays(nb::handle owner) const {
    nb::list passed;
    passed.append(array(memory_.get(), {words_size()}, nb::dtype<float>(), owner));
    for (size_t i = layout_->num_numbers() + layout_->num_words(); i < starts_.size(); ++i)
        passed.append(view(layout_->inputs()[i].name, owner));
    return passed;
}

nb::object Arguments::view(const std::string& name, nb::handle owner) const {
    for (size_t i = 0; i < starts_.size(); ++i) {
        const Input& input = layout_->inputs()[i];
        if (input.name != name) continue;
        std::vector<size_t> shape = input.row;
        if (!input.is_number) shape.insert(shape.begin(), size_);
        return array(starts_[i], shape, input.dtype, owner);
    }
    throw nb::key_error(name.c_str());
}

void bind_arguments(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<Layout>(module, "Layout")
        .def(nb::init<const std::vector<Layout::Description>&, const std::vector<Layout::Description>&,
                      const std::vector<Layout::Description>&>(),
             "numbers"_a, "words"_a, "apart"_a);
    nb::class_<Arguments>(module, "Arguments")
        .def(nb::init<std::shared_ptr<const Layout>, size_t>(), "layout"_a, "size"_a)
        .def("put", &Arguments::put, "values"_a)
        .def("__contains__",
             [](const Arguments& arguments, const std::string& name) {
                 for (const Input& input : arguments.layout().inputs())
                     if (input.name == name) return true;
                 return false;
             })
        .def("__getitem__", [](nb::pointer_and_handle<Arguments> self, const std::string& name) { return self.p->view(name, self.h); })
        .def_prop_ro("arrays", [](nb::pointer_and_handle<Arguments> self) { return self.p->arrays(self.h); });
}

}  // namespace xpsql
