// The mathematics, and the same in JAX, is algorithms/layers/scored.py.
#include "attention.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "buffers.hpp"
#include "parallel.hpp"
#include "projection.hpp"
#include "sigmoid.hpp"
#include "wide.hpp"

namespace ffi = xla::ffi;

namespace xpsql {

namespace {

constexpr size_t stretch = 48;  // elements that go through all layers together; a multiple of every block
constexpr size_t run = 32;      // histories that a thread takes at a time

// A layer x W + b and its activation, dice; the first has no bias. Floats are offsets into all parameters.
struct Layer {
    size_t inputs, units, kernel, bias, slope, mean, steepness;
    bool has_bias;
};

// What is computed with: sizes and the parameters, one layer after the other, then the output's.
struct Network {
    std::vector<Layer> layers;
    size_t output, size, width, units;  // units: of all layers

    Network(const int32_t* sizes, size_t count) : size(0), width(size_t(sizes[0])), units(0) {
        for (size_t i = 1; i < count; ++i) {
            Layer layer = {size_t(sizes[i - 1]), size_t(sizes[i]), size, 0, 0, 0, 0, i > 1};
            size += layer.inputs * layer.units;
            for (size_t* at : {&layer.bias, &layer.slope, &layer.mean, &layer.steepness}) {
                if (at == &layer.bias && !layer.has_bias) continue;
                *at = size;
                size += layer.units;
            }
            units += layer.units;
            layers.push_back(layer);
        }
        output = size;
        size += layers.back().units;
    }
};

// The histories of a batch, and where their elements are.
struct Batch {
    size_t examples, groups, length;
    const float *target, *common, *vectors, *shares;
    const bool* mask;
    const int32_t* owner;  // ascending, or nullptr: a history of each example

    size_t runs() const { return (groups + run - 1) / run; }
    // The examples of the histories before one.
    size_t before(size_t group) const {
        group = std::min(group, groups);
        return owner ? size_t(std::lower_bound(owner, owner + examples, int32_t(group)) - owner) : group;
    }
};

// Gradients by what a network computes with, and of a part of the batch those by its parameters.
struct Gradients {
    const float* outer;
    float *target, *common, *vectors, *shares, *parameters;
};

template <class Lane>
class Computed : Lanes<Lane> {
  public:
    static constexpr size_t lane = sizeof(Lane) / sizeof(float);
    static constexpr size_t block = lane == 16 ? 8 : 4;  // rows of a product whose sums stay in registers, two lanes of each
    using F = Functions<Lane>;

    XPSQL_INLINE Computed(const Network& network, const Batch& batch, const float* parameters, const float* turned, size_t part)
        : network_(network), batch_(batch), parameters_(parameters), turned_(turned), begin_(batch.before(part * run)),
          end_(batch.before((part + 1) * run)), zeros_(std::max(network.width, network.layers[0].units)) {
        // products, then of each layer what goes in, the share of the rectifier, and what comes out; gradients of two layers
        size_t widest = network.width;
        for (const Layer& layer : network.layers) widest = std::max(widest, layer.units);
        float* at = projection::scratch(stretch * (network.width + 3 * network.units + 2 * widest));
        products_ = at;
        at += stretch * network.width;
        for (const Layer& layer : network.layers) {
            in_.push_back(at);
            share_.push_back(at + stretch * layer.units);
            out_.push_back(at + 2 * stretch * layer.units);
            at += 3 * stretch * layer.units;
        }
        by_ = at;
        other_ = at + stretch * widest;
    }

    XPSQL_INLINE void forward(float* scores) {
        const Layer& last = network_.layers.back();
        const float* const output = parameters_ + network_.output;
        walk([&]() XPSQL_INLINED {
            through();
            for (size_t e = 0; e < count_; ++e) {
                Lane sum = Lane{};
                for (size_t u = 0; u < last.units; u += lane) sum += load(out_.back() + e * last.units + u) * load(output + u);
                float total = 0;
                for (size_t i = 0; i < lane; ++i) total += sum[i];
                scores[place_[e]] = total;
            }
        });
    }

    XPSQL_INLINE void backward(const Gradients& to) {
        const size_t layers = network_.layers.size(), width = network_.width;
        const Layer &first = network_.layers[0], &last = network_.layers.back();
        const float* const output = parameters_ + network_.output;
        walk([&]() XPSQL_INLINED {
            through();
            const size_t rows = filled();
            for (size_t u = 0; u < last.units; u += lane) {
                Lane sum = load(to.parameters + network_.output + u);
                for (size_t e = 0; e < rows; ++e) {
                    const float outer = e < count_ ? to.outer[place_[e]] : 0;
                    sum += outer * load(out_.back() + e * last.units + u);
                    store(by_ + e * last.units + u, outer * load(output + u));
                }
                store(to.parameters + network_.output + u, sum);
            }
            for (size_t i = layers; i-- > 0;) {
                const Layer& layer = network_.layers[i];
                activation_backward(layer, in_[i], share_[i], to.parameters);
                const float* const before = i ? out_[i - 1] : products_;
                multiply(layer.inputs, layer.units, rows, before, 1, layer.inputs, by_, layer.units, to.parameters + layer.kernel, true);
                multiply(rows, layer.inputs, layer.units, by_, layer.units, 1, turned_ + layer.kernel, layer.inputs, other_, false);
                if (!i) break;
                std::swap(by_, other_);
            }
            for (size_t e = 0; e < count_; ++e) {  // by_ has the gradients of the first layer's sums, other_ those of products
                add(to.shares + element_[e] * first.units, by_ + e * first.units, first.units);
                add(to.common + example_[e] * first.units, by_ + e * first.units, first.units);
                float *const vector = to.vectors + element_[e] * width, *const target = to.target + example_[e] * width;
                for (size_t d = 0; d < width; d += lane) {
                    const Lane own = load(other_ + e * width + d);
                    store(vector + d, load(vector + d) + own * load(target_[e] + d));
                    store(target + d, load(target + d) + own * load(vector_[e] + d));
                }
            }
        });
    }

  private:
    using Lanes<Lane>::load;
    using Lanes<Lane>::store;

    static XPSQL_INLINE void add(float* to, const float* from, size_t n) {
        for (size_t u = 0; u < n; u += lane) store(to + u, load(to + u) + load(from + u));
    }

    // Calls act for all elements that are there, a stretch of them at a time.
    template <class Act>
    XPSQL_INLINE void walk(Act act) {
        const size_t length = batch_.length, width = network_.width, units = network_.layers[0].units;
        count_ = 0;
        for (size_t b = begin_; b < end_; ++b) {
            const size_t group = batch_.owner ? size_t(batch_.owner[b]) : b;
            for (size_t l = 0; l < length; ++l) {
                const size_t element = group * length + l;
                if (!batch_.mask[element]) continue;
                place_[count_] = b * length + l, example_[count_] = b, element_[count_] = element;
                vector_[count_] = batch_.vectors + element * width, target_[count_] = batch_.target + b * width;
                shared_[count_] = batch_.shares + element * units, common_[count_] = batch_.common + b * units;
                if (++count_ == stretch) {
                    act();
                    count_ = 0;
                }
            }
        }
        if (!count_) return;
        for (size_t e = count_; e < filled(); ++e) vector_[e] = target_[e] = shared_[e] = common_[e] = zeros_.data();
        act();
    }

    size_t filled() const { return (count_ + block - 1) / block * block; }

    // Takes a stretch through all layers.
    XPSQL_INLINE void through() {
        const size_t rows = filled(), width = network_.width;
        for (size_t e = 0; e < rows; ++e)
            for (size_t d = 0; d < width; d += lane) store(products_ + e * width + d, load(vector_[e] + d) * load(target_[e] + d));
        const float* before = products_;
        for (size_t i = 0; i < network_.layers.size(); ++i) {
            const Layer& layer = network_.layers[i];
            multiply(rows, layer.units, layer.inputs, before, layer.inputs, 1, parameters_ + layer.kernel, layer.units, in_[i], false);
            for (size_t u = 0; u < layer.units; u += lane) {
                const Lane slope = load(parameters_ + layer.slope + u), mean = load(parameters_ + layer.mean + u);
                const Lane steepness = load(parameters_ + layer.steepness + u);
                const Lane bias = i ? load(parameters_ + layer.bias + u) : Lane{};
                for (size_t e = 0; e < rows; ++e) {
                    const size_t at = e * layer.units + u;
                    const Lane x = load(in_[i] + at) + (i ? bias : load(shared_[e] + u) + load(common_[e] + u));
                    const Lane share = F::sigmoid(steepness * (x - mean));
                    store(in_[i] + at, x);
                    store(share_[i] + at, share);
                    store(out_[i] + at, (share + (1.0f - share) * slope) * x);
                }
            }
            before = out_[i];
        }
    }

    // by_ *= the derivative of dice; adds gradients by what it learns, and by the layer's bias.
    XPSQL_INLINE void activation_backward(const Layer& layer, const float* in, const float* shares, float* to) {
        for (size_t u = 0; u < layer.units; u += lane) {
            const Lane slope = load(parameters_ + layer.slope + u), mean = load(parameters_ + layer.mean + u);
            const Lane steepness = load(parameters_ + layer.steepness + u);
            Lane by_slope = load(to + layer.slope + u), by_mean = Lane{}, by_steepness = load(to + layer.steepness + u);
            Lane by_bias = Lane{};
            for (size_t e = 0; e < filled(); ++e) {
                const size_t at = e * layer.units + u;
                const Lane x = load(in + at), share = load(shares + at), by = load(by_ + at);
                const Lane by_bend = by * x * (1.0f - slope) * share * (1.0f - share);  // by steepness * (x - mean)
                by_slope += by * x * (1.0f - share);
                by_mean += by_bend;
                by_steepness += by_bend * (x - mean);
                const Lane by_x = by * (share + (1.0f - share) * slope) + by_bend * steepness;
                by_bias += by_x;
                store(by_ + at, by_x);
            }
            store(to + layer.slope + u, by_slope);
            store(to + layer.mean + u, load(to + layer.mean + u) - by_mean * steepness);
            store(to + layer.steepness + u, by_steepness);
            if (layer.has_bias) store(to + layer.bias + u, load(to + layer.bias + u) + by_bias);
        }
    }

    // to[r][u], or what is there and, = the sum over k of left[r][k] right[k][u]; rows are a multiple of block, columns of 16.
    static XPSQL_INLINE void multiply(size_t rows, size_t columns, size_t depth, const float* left, size_t left_row, size_t left_step,
                                      const float* right, size_t right_step, float* to, bool adds) {
        for (size_t u = 0; u < columns;) {
            const size_t lanes = columns - u >= 2 * lane ? 2 : 1;
            for (size_t r = 0; r < rows; r += block) {
                const float* const own = left + r * left_row;
                if (lanes == 2) products<2>(depth, own, left_row, left_step, right + u, right_step, to + r * columns + u, columns, adds);
                else products<1>(depth, own, left_row, left_step, right + u, right_step, to + r * columns + u, columns, adds);
            }
            u += lanes * lane;
        }
    }

    template <size_t lanes>
    static XPSQL_INLINE void products(size_t depth, const float* left, size_t left_row, size_t left_step, const float* right,
                                      size_t right_step, float* to, size_t to_row, bool adds) {
        Lane sums[block][lanes];
        for (size_t r = 0; r < block; ++r)
            for (size_t v = 0; v < lanes; ++v) sums[r][v] = adds ? load(to + r * to_row + v * lane) : Lane{};
        for (size_t k = 0; k < depth; ++k) {
            Lane own[lanes];
            for (size_t v = 0; v < lanes; ++v) own[v] = load(right + k * right_step + v * lane);
            for (size_t r = 0; r < block; ++r)
                for (size_t v = 0; v < lanes; ++v) sums[r][v] += left[r * left_row + k * left_step] * own[v];
        }
        for (size_t r = 0; r < block; ++r)
            for (size_t v = 0; v < lanes; ++v) store(to + r * to_row + v * lane, sums[r][v]);
    }

    const Network& network_;
    const Batch& batch_;
    const float *const parameters_, *const turned_;
    const size_t begin_, end_;
    const std::vector<float> zeros_;
    float *products_, *by_, *other_;
    std::vector<float*> in_, share_, out_;
    size_t count_ = 0;
    size_t place_[stretch], example_[stretch], element_[stretch];
    const float *vector_[stretch], *target_[stretch], *shared_[stretch], *common_[stretch];
};

template <class Lane>
XPSQL_INLINE void compute(const Network& network, const Batch& batch, const float* parameters, const float* turned, size_t part,
                          float* scores, const Gradients* to) {
    Computed<Lane> computed(network, batch, parameters, turned, part);
    if (to) computed.backward(*to);
    else computed.forward(scores);
}

#define XPSQL_COMPUTE(name, attributes, Lane)                                                                                    \
    attributes void name(const Network& network, const Batch& batch, const float* parameters, const float* turned, size_t part, \
                         float* scores, const Gradients* to) {                                                                   \
        compute<Lane>(network, batch, parameters, turned, part, scores, to);                                                     \
    }
XPSQL_COMPUTE(compute_anywhere, , Lane32)
XPSQL_COMPUTE(compute_wide, XPSQL_WIDE, Lane32)
XPSQL_COMPUTE(compute_widest, XPSQL_WIDEST, Lane64)

auto computing() { return widest() ? compute_widest : wide() ? compute_wide : compute_anywhere; }

Batch batch_of(const Floats& target, const Floats& common, const Floats& vectors, const Floats& shares, const Flags& mask,
               const Indices& owner) {
    const auto sizes = mask.dimensions();
    const int32_t* const owners = owner.element_count() ? owner.typed_data() : nullptr;
    return {size_t(target.dimensions()[0]), size_t(sizes[0]), size_t(sizes[1]), target.typed_data(), common.typed_data(),
            vectors.typed_data(), shares.typed_data(), mask.typed_data(), owners};
}

ffi::Error attend(Indices sizes, Floats parameters, Floats target, Floats common, Floats vectors, Floats shares, Flags mask,
                  Indices owner, FloatsOut scores) {
    const Network network(sizes.typed_data(), sizes.element_count());
    const Batch batch = batch_of(target, common, vectors, shares, mask, owner);
    const auto act = computing();
    std::memset(scores->typed_data(), 0, scores->size_bytes());
    Team::get().run(batch.runs(), [&](size_t part) {
        act(network, batch, parameters.typed_data(), nullptr, part, scores->typed_data(), nullptr);
    });
    return ffi::Error::Success();
}

ffi::Error attend_gradients(Indices sizes, Floats parameters, Floats target, Floats common, Floats vectors, Floats shares, Flags mask,
                            Indices owner, Floats outer, FloatsOut by_parameters, FloatsOut by_target, FloatsOut by_common,
                            FloatsOut by_vectors, FloatsOut by_shares) {
    const Network network(sizes.typed_data(), sizes.element_count());
    const Batch batch = batch_of(target, common, vectors, shares, mask, owner);
    std::vector<float> turned(network.size), by_part(batch.runs() * network.size);
    for (const Layer& layer : network.layers)
        for (size_t k = 0; k < layer.inputs; ++k)
            for (size_t u = 0; u < layer.units; ++u)
                turned[layer.kernel + u * layer.inputs + k] = parameters.typed_data()[layer.kernel + k * layer.units + u];
    for (FloatsOut* to : {&by_parameters, &by_target, &by_common, &by_vectors, &by_shares})
        std::memset((*to)->typed_data(), 0, (*to)->size_bytes());
    const auto act = computing();
    Team::get().run(batch.runs(), [&](size_t part) {
        const Gradients to = {outer.typed_data(), by_target->typed_data(), by_common->typed_data(), by_vectors->typed_data(),
                              by_shares->typed_data(), by_part.data() + part * network.size};
        act(network, batch, parameters.typed_data(), turned.data(), part, nullptr, &to);
    });
    for (size_t part = 0; part < batch.runs(); ++part)  // in one order, whoever computed them
        for (size_t i = 0; i < network.size; ++i) by_parameters->typed_data()[i] += by_part[part * network.size + i];
    return ffi::Error::Success();
}

}  // namespace

}  // namespace xpsql

using Floats = xpsql::Floats;
using Indices = xpsql::Indices;
using Flags = xpsql::Flags;

XLA_FFI_DEFINE_HANDLER_SYMBOL(xpsql_attend, xpsql::attend,
                              ffi::Ffi::Bind()
                                  .Arg<Indices>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Flags>()
                                  .Arg<Indices>()
                                  .Ret<Floats>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(xpsql_attend_gradients, xpsql::attend_gradients,
                              ffi::Ffi::Bind()
                                  .Arg<Indices>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Flags>()
                                  .Arg<Indices>()
                                  .Arg<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>());
