// The memory in which a compiled program is passed its inputs; platform/ps/compiled/program.py says what stands where.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "arrays.hpp"

namespace xpsql {

// One input: a number, or an array with a row of its own for each of the program's.
struct Input {
    std::string name;
    nb::dlpack::dtype dtype;
    std::vector<size_t> row;  // its shape
    size_t bytes;             // of a row
    bool is_number;
    size_t array;  // in which it stands
};

class Layout {
  public:
    using Description = std::tuple<std::string, std::string, std::vector<size_t>>;

    Layout(const std::vector<Description>& numbers, const std::vector<Description>& words, const std::vector<Description>& apart);

    const std::vector<Input>& inputs() const { return inputs_; }
    size_t num_numbers() const { return num_numbers_; }
    size_t num_words() const { return num_words_; }

  private:
    void add(const Description& description, bool is_number, size_t array);

    std::vector<Input> inputs_;
    size_t num_numbers_, num_words_;
};

// The inputs of one call.
class Arguments {
  public:
    Arguments(std::shared_ptr<const Layout> layout, size_t size);

    const Layout& layout() const { return *layout_; }
    size_t size() const { return size_; }
    uint8_t* at(size_t input) const { return starts_[input]; }
    void put(const nb::dict& values) const;
    nb::list arrays(nb::handle owner) const;
    nb::object view(const std::string& name, nb::handle owner) const;

  private:
    nb::object array(uint8_t* data, const std::vector<size_t>& shape, nb::dlpack::dtype dtype, nb::handle owner) const;
    size_t words_size() const { return sum(layout_->num_numbers(), product(layout_->num_words(), size_)); }

    std::shared_ptr<const Layout> layout_;
    size_t size_;
    std::unique_ptr<uint8_t[], AlignedDelete> memory_;
    std::vector<uint8_t*> starts_;
};

}  // namespace xpsql
