// The mathematics, and the same in JAX, is algorithms/layers/gru.py.
#include "recurrence.hpp"

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

using projection::Block;
using projection::block;
using projection::Lane;
using projection::lane;
using projection::load;
using projection::pair;
using projection::Products;
using projection::store;

constexpr size_t run = 16 * block;  // examples that a thread takes at a time

struct Sizes {
    size_t batch, length, units;

    size_t gates() const { return 3 * units; }
    size_t runs() const { return (batch + run - 1) / run; }
    size_t weights() const { return (units + 1) * gates(); }
};

// What a layer computes with: products[batch, length, 3 units], shares[batch, length], recurrent[units, 3 units], bias[3 units].
struct Layer {
    Sizes sizes;
    const float *products, *shares, *recurrent, *bias;
};

XPSQL_INLINE Lane sigmoid(Lane x) { return Functions<Lane>::sigmoid(x); }
XPSQL_INLINE Lane tanh(Lane x) { return Functions<Lane>::tanh(x); }

XPSQL_INLINE Lane driven(const Layer& layer, const float* product, size_t at) { return load(product + at) + load(layer.bias + at); }

// What one element of an example makes of a state, for one lane of units: u, r, c, and the state's part of c before r.
struct Gates {
    Lane update, reset, candidate, recalled;

    XPSQL_INLINE Gates(const Layer& layer, const float* product, const float* of_state, size_t unit) {
        const size_t units = layer.sizes.units;
        update = sigmoid(driven(layer, product, unit) + load(of_state + unit));
        reset = sigmoid(driven(layer, product, units + unit) + load(of_state + units + unit));
        recalled = load(of_state + 2 * units + unit);
        candidate = tanh(driven(layer, product, 2 * units + unit) + reset * recalled);
    }
};

// to[r] = left[r] times right, [n, columns]
XPSQL_INLINE void multiply(const Block& left, size_t rows, const float* right, size_t n, size_t columns, float* to) {
    for (size_t u = 0; u < columns; u += pair) {
        Products<2> products;
        products.add(left, right + u, n, columns);
        products.put(rows, to + u, columns);
    }
}

// Whether an element counts in one of the examples [begin, begin + n).
XPSQL_INLINE bool counts(const Layer& layer, size_t begin, size_t n, size_t l) {
    for (size_t r = 0; r < n; ++r)
        if (layer.shares[(begin + r) * layer.sizes.length + l] != 0) return true;
    return false;
}

XPSQL_INLINE void forward(const Layer& layer, size_t begin, size_t n, float* states) {
    const size_t length = layer.sizes.length, units = layer.sizes.units, gates = layer.sizes.gates();
    float* const state = projection::scratch(block * (units + gates));
    float* const of_state = state + block * units;
    std::memset(state, 0, block * units * sizeof(float));
    for (size_t l = 0; l < length; ++l) {
        const bool changes = counts(layer, begin, n, l);
        if (changes) multiply(Block(n, 0, state, units), n, layer.recurrent, units, gates, of_state);
        for (size_t r = 0; r < n; ++r) {
            const size_t at = (begin + r) * length + l;
            const float share = layer.shares[at];
            float* const own = state + r * units;
            for (size_t u = 0; u < units && share != 0; u += lane) {
                const Gates gate(layer, layer.products + at * gates, of_state + r * gates, u);
                const Lane before = load(own + u);
                store(own + u, before + share * gate.update * (gate.candidate - before));
            }
            std::memcpy(states + at * units, own, units * sizeof(float));
        }
    }
}

// Gradients by what a layer computes with; `weights` has the gradients of recurrent, then of bias.
struct Gradients {
    float *products, *shares, *weights;
};

// weights[k] += sum over r of states[r][k] gradients[r], for so many examples
XPSQL_INLINE void add_outer(const Block& states, const float* gradients, size_t n, size_t units, size_t gates, float* weights) {
    for (size_t u = 0; u < gates; u += lane) {
        Lane own[block];
        for (size_t r = 0; r < block; ++r) own[r] = r < n ? load(gradients + r * gates + u) : Lane{};
        for (size_t k = 0; k < units; ++k) {
            Lane sum = load(weights + k * gates + u);
            for (size_t r = 0; r < block; ++r) sum += states.left[r][k] * own[r];
            store(weights + k * gates + u, sum);
        }
    }
}

// Args: turned: recurrent, [3 units, units]; outer: gradients by states, [batch, length, units].
XPSQL_INLINE void backward(const Layer& layer, const float* turned, const float* states, const float* outer, size_t begin, size_t n,
                           const Gradients& to) {
    const size_t length = layer.sizes.length, units = layer.sizes.units, gates = layer.sizes.gates();
    const std::vector<float> zeros(units);
    float* const by_state = projection::scratch(block * (2 * units + 2 * gates));
    float* const passed = by_state + block * units;
    float* const of_state = passed + block * units;
    float* const by_gates = of_state + block * gates;
    std::memset(by_state, 0, block * units * sizeof(float));
    for (size_t l = length; l-- > 0;) {
        const bool changes = counts(layer, begin, n, l);
        Block before(n, 0, states + (begin * length + l) * units, length * units);
        for (size_t r = 0; r < block; ++r) before.left[r] = l == 0 ? zeros.data() : before.left[r] - units;
        if (changes) multiply(before, n, layer.recurrent, units, gates, of_state);
        for (size_t r = 0; r < n; ++r) {
            const size_t at = (begin + r) * length + l;
            const float share = layer.shares[at];
            float* const own = by_state + r * units;
            float* const by_product = to.products + at * gates;
            float* const by_gate = by_gates + r * gates;
            Lane by_share = Lane{};
            if (share == 0) {
                std::memset(by_product, 0, gates * sizeof(float));
                std::memset(by_gate, 0, gates * sizeof(float));
            }
            for (size_t u = 0; u < units; u += lane) {
                const Lane by_own = load(own + u) + load(outer + at * units + u);
                store(own + u, by_own);
                if (share == 0) continue;
                const Gates gate(layer, layer.products + at * gates, of_state + r * gates, u);
                const Lane step = gate.candidate - load(before.left[r] + u), by_update = by_own * step;
                const Lane by_candidate = by_own * share * gate.update * (1.0f - gate.candidate * gate.candidate);
                const Lane by_u = by_update * share * gate.update * (1.0f - gate.update);
                const Lane by_r = by_candidate * gate.recalled * gate.reset * (1.0f - gate.reset);
                by_share += by_update * gate.update;
                store(own + u, by_own * (1.0f - share * gate.update));
                store(by_product + u, by_u);
                store(by_product + units + u, by_r);
                store(by_product + 2 * units + u, by_candidate);
                store(by_gate + u, by_u);
                store(by_gate + units + u, by_r);
                store(by_gate + 2 * units + u, by_candidate * gate.reset);
            }
            to.shares[at] = 0;
            for (size_t i = 0; i < lane; ++i) to.shares[at] += by_share[i];
            float* const by_bias = to.weights + units * gates;
            for (size_t u = 0; u < gates && share != 0; u += lane) store(by_bias + u, load(by_bias + u) + load(by_product + u));
        }
        if (!changes) continue;
        add_outer(before, by_gates, n, units, gates, to.weights);
        multiply(Block(n, 0, by_gates, gates), n, turned, gates, units, passed);
        for (size_t i = 0; i < n * units; i += lane) store(by_state + i, load(by_state + i) + load(passed + i));
    }
}

void forwards(const Layer& layer, size_t begin, size_t n, float* states) { forward(layer, begin, n, states); }
XPSQL_WIDE void forwards_wide(const Layer& layer, size_t begin, size_t n, float* states) { forward(layer, begin, n, states); }
void backwards(const Layer& layer, const float* turned, const float* states, const float* outer, size_t begin, size_t n,
               const Gradients& to) {
    backward(layer, turned, states, outer, begin, n, to);
}
XPSQL_WIDE void backwards_wide(const Layer& layer, const float* turned, const float* states, const float* outer, size_t begin,
                               size_t n, const Gradients& to) {
    backward(layer, turned, states, outer, begin, n, to);
}

// Calls act(begin, n) for the examples of a run, a block at a time.
template <class Act>
void in_blocks(const Sizes& sizes, size_t part, Act act) {
    const size_t end = std::min(sizes.batch, (part + 1) * run);
    for (size_t begin = part * run; begin < end; begin += block) act(begin, std::min(block, end - begin));
}

Layer layer_of(const Floats& products, const Floats& shares, const Floats& recurrent, const Floats& bias) {
    const Sizes sizes = {size_t(shares.dimensions()[0]), size_t(shares.dimensions()[1]), size_t(recurrent.dimensions()[0])};
    return {sizes, products.typed_data(), shares.typed_data(), recurrent.typed_data(), bias.typed_data()};
}

ffi::Error recur(Floats products, Floats shares, Floats recurrent, Floats bias, FloatsOut states) {
    const Layer layer = layer_of(products, shares, recurrent, bias);
    const auto act = wide() ? forwards_wide : forwards;
    Team::get().run(layer.sizes.runs(), [&](size_t part) {
        in_blocks(layer.sizes, part, [&](size_t begin, size_t n) { act(layer, begin, n, states->typed_data()); });
    });
    return ffi::Error::Success();
}

ffi::Error recur_gradients(Floats products, Floats shares, Floats recurrent, Floats bias, Floats states, Floats outer,
                           FloatsOut by_products, FloatsOut by_shares, FloatsOut by_recurrent, FloatsOut by_bias) {
    const Layer layer = layer_of(products, shares, recurrent, bias);
    const size_t units = layer.sizes.units, gates = layer.sizes.gates(), size = layer.sizes.weights();
    std::vector<float> turned(units * gates), weights(layer.sizes.runs() * size);
    for (size_t k = 0; k < units; ++k)
        for (size_t u = 0; u < gates; ++u) turned[u * units + k] = layer.recurrent[k * gates + u];
    const auto act = wide() ? backwards_wide : backwards;
    Team::get().run(layer.sizes.runs(), [&](size_t part) {
        const Gradients to = {by_products->typed_data(), by_shares->typed_data(), weights.data() + part * size};
        in_blocks(layer.sizes, part, [&](size_t begin, size_t n) {
            act(layer, turned.data(), states.typed_data(), outer.typed_data(), begin, n, to);
        });
    });
    std::memset(by_recurrent->typed_data(), 0, by_recurrent->size_bytes());
    std::memset(by_bias->typed_data(), 0, by_bias->size_bytes());
    for (size_t part = 0; part < layer.sizes.runs(); ++part) {  // in one order, whoever computed them
        const float* const own = weights.data() + part * size;
        for (size_t i = 0; i < units * gates; ++i) by_recurrent->typed_data()[i] += own[i];
        for (size_t i = 0; i < gates; ++i) by_bias->typed_data()[i] += own[units * gates + i];
    }
    return ffi::Error::Success();
}

}  // namespace

}  // namespace xpsql

using Floats = xpsql::Floats;

XLA_FFI_DEFINE_HANDLER_SYMBOL(xpsql_recur, xpsql::recur,
                              ffi::Ffi::Bind().Arg<Floats>().Arg<Floats>().Arg<Floats>().Arg<Floats>().Ret<Floats>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(xpsql_recur_gradients, xpsql::recur_gradients,
                              ffi::Ffi::Bind()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>());
