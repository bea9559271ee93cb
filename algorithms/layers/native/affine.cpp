// The same in JAX is algorithms/layers/affine.py.
#include "affine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "buffers.hpp"
#include "parallel.hpp"
#include "projection.hpp"
#include "wide.hpp"

namespace ffi = xla::ffi;

namespace xpsql {

namespace {

constexpr size_t run = 64;  // examples that stay in the nearest cache, and that a thread takes at a time

// A matrix in panels of as many columns as have their sums in registers, filled up with zeros: [panels, depth, panel].
struct Panels {
    size_t depth, columns, panel;
    std::vector<float> values;

    // from[k * down + c * across] is of row k and column c.
    Panels(size_t depth, size_t columns, size_t panel, const float* from, size_t down, size_t across)
        : depth(depth), columns(columns), panel(panel), values((columns + panel - 1) / panel * panel * depth) {
        for (size_t first = 0; first < columns; first += panel) {
            float* to = values.data() + first * depth;
            const size_t some = std::min(panel, columns - first);
            for (size_t k = 0; k < depth; ++k, to += panel) {
                const float* own = from + k * down + first * across;
                for (size_t c = 0; c < some; ++c) to[c] = own[c * across];
            }
        }
    }
};

// Networks side by side: `count` kernels float32[inputs, units]; what goes into them, and comes out, of an example one after the
// other. What comes out is rectified where it is to be, and so is its gradient, `outer`.
struct Layer {
    size_t batch, count, inputs, units;
    bool rectified;
    const float *x, *kernel, *bias, *said, *outer;  // said: the outputs, for gradients
    float *y, *by_x, *by_kernel, *by_bias;

    size_t runs() const { return (batch + run - 1) / run; }
    size_t panels(size_t panel) const { return (units + panel - 1) / panel; }
};

template <class Lane>
class Computed : Lanes<Lane> {
  public:
    static constexpr size_t lane = sizeof(Lane) / sizeof(float);
    static constexpr size_t panel = 2 * lane;
    static constexpr size_t block = lane == 16 ? 8 : 6;  // rows whose sums stay in registers, two lanes of each

    // The outputs of a run of examples.
    static XPSQL_INLINE void outputs(const Layer& layer, const std::vector<Panels>& kernels, size_t part) {
        const size_t first = part * run, rows = std::min(run, layer.batch - first);
        const size_t width = layer.count * layer.inputs, wide = layer.count * layer.units;
        for (size_t n = 0; n < layer.count; ++n)
            multiply(rows, layer.x + first * width + n * layer.inputs, width, kernels[n], layer.bias + n * layer.units,
                     layer.rectified, layer.y + first * wide + n * layer.units, wide);
    }

    // The gradients by the inputs of a run of examples; turned: the kernels.
    static XPSQL_INLINE void by_inputs(const Layer& layer, const std::vector<Panels>& turned, size_t part) {
        const size_t first = part * run, rows = std::min(run, layer.batch - first), units = layer.units;
        const size_t width = layer.count * layer.inputs, wide = layer.count * units;
        float* const own = projection::scratch(run * units + panel);
        for (size_t n = 0; n < layer.count; ++n) {
            const size_t at = first * wide + n * units;
            for (size_t r = 0; r < rows; ++r)
                for (size_t u = 0; u < units; u += panel)
                    take(layer, at + r * wide + u, std::min(panel, units - u), own + r * units + u);
            multiply(rows, own, units, turned[n], nullptr, false, layer.by_x + first * width + n * layer.inputs, width);
        }
    }

    // The gradients by a panel of units of a kernel and its bias.
    static XPSQL_INLINE void by_units(const Layer& layer, size_t part) {
        const size_t column = part % layer.panels(panel) * panel;
        if (layer.units - column <= lane) by_lanes<1>(layer, part / layer.panels(panel), column);
        else by_lanes<2>(layer, part / layer.panels(panel), column);
    }

  private:
    using Lanes<Lane>::load;
    using Lanes<Lane>::store;

    static XPSQL_INLINE void copy(float* to, const float* from, size_t some) {
        if (some == panel) std::memcpy(to, from, panel * sizeof(float));
        else std::memcpy(to, from, some * sizeof(float));
    }

    // to[u] = the gradient by what is rectified, for some units from one on
    static XPSQL_INLINE void take(const Layer& layer, size_t at, size_t some, float* to) {
        copy(to, layer.outer + at, some);
        if (!layer.rectified) return;
        for (size_t u = 0; u < some; ++u) to[u] = layer.said[at + u] > 0 ? to[u] : 0;
    }

    template <size_t lanes>
    static XPSQL_INLINE void by_lanes(const Layer& layer, size_t n, size_t column) {
        const size_t inputs = layer.inputs, width = layer.count * inputs, wide = layer.count * layer.units;
        const size_t some = std::min(panel, layer.units - column), high = (inputs + block - 1) / block * block;
        float* const sums = projection::scratch((high + 1 + run) * panel);
        float *const of_bias = sums + high * panel, *const own = of_bias + panel;
        std::memset(sums, 0, (high + 1 + run) * panel * sizeof(float));
        for (size_t start = 0; start < layer.batch; start += run) {
            const size_t rows = std::min(run, layer.batch - start);
            const float* const left = layer.x + start * width + n * inputs;
            Lane total[lanes];
            for (size_t v = 0; v < lanes; ++v) total[v] = load(of_bias + v * lane);
            for (size_t r = 0; r < rows; ++r) {
                take(layer, (start + r) * wide + n * layer.units + column, some, own + r * panel);
                for (size_t v = 0; v < lanes; ++v) total[v] += load(own + r * panel + v * lane);
            }
            for (size_t v = 0; v < lanes; ++v) store(of_bias + v * lane, total[v]);
            for (size_t i = 0; i < inputs; i += block) {
                Lane added[block][lanes];
                const float* lefts[block];
                for (size_t j = 0; j < block; ++j) {
                    lefts[j] = left + std::min(i + j, inputs - 1);
                    for (size_t v = 0; v < lanes; ++v) added[j][v] = load(sums + (i + j) * panel + v * lane);
                }
                add<lanes>(rows, lefts, width, own, added);
                for (size_t j = 0; j < block; ++j)
                    for (size_t v = 0; v < lanes; ++v) store(sums + (i + j) * panel + v * lane, added[j][v]);
            }
        }
        float* const to = layer.by_kernel + n * inputs * layer.units + column;
        for (size_t i = 0; i < inputs; ++i) copy(to + i * layer.units, sums + i * panel, some);
        copy(layer.by_bias + n * layer.units + column, of_bias, some);
    }

    // sums[i] += sum over k of left[i][k * step] right[k]
    template <size_t lanes>
    static XPSQL_INLINE void add(size_t depth, const float* const (&left)[block], size_t step, const float* right,
                                 Lane (&sums)[block][lanes]) {
        for (size_t k = 0; k < depth; ++k, right += panel) {
            Lane own[lanes];
            for (size_t v = 0; v < lanes; ++v) own[v] = load(right + v * lane);
            for (size_t i = 0; i < block; ++i)
                for (size_t v = 0; v < lanes; ++v) sums[i][v] += left[i][k * step] * own[v];
        }
    }

    // to[r] = left[r] right + bias, rectified where it is to be, for some rows; no bias is nullptr
    static XPSQL_INLINE void multiply(size_t rows, const float* left, size_t left_row, const Panels& right, const float* bias,
                                      bool rectified, float* to, size_t to_row) {
        for (size_t c = 0; c < right.columns; c += panel) {
            const size_t some = std::min(panel, right.columns - c);
            const float* const own = right.values.data() + c * right.depth;
            float first[panel] = {};
            if (bias) copy(first, bias + c, some);
            if (some <= lane) multiply_lanes<1>(rows, left, left_row, right.depth, own, some, first, rectified, to + c, to_row);
            else multiply_lanes<2>(rows, left, left_row, right.depth, own, some, first, rectified, to + c, to_row);
        }
    }

    template <size_t lanes>
    static XPSQL_INLINE void multiply_lanes(size_t rows, const float* left, size_t left_row, size_t depth, const float* right,
                                            size_t some, const float* first, bool rectified, float* to, size_t to_row) {
        for (size_t r = 0; r < rows; r += block) {
            Lane sums[block][lanes];
            const float* lefts[block];
            for (size_t i = 0; i < block; ++i) {
                lefts[i] = left + std::min(r + i, rows - 1) * left_row;
                for (size_t v = 0; v < lanes; ++v) sums[i][v] = load(first + v * lane);
            }
            add<lanes>(depth, lefts, 1, right, sums);
            for (size_t i = 0; i < std::min(block, rows - r); ++i) {
                float own[panel];
                for (size_t v = 0; v < lanes; ++v) {
                    const Lane sum = sums[i][v];
                    store(own + v * lane, rectified ? (sum < 0 ? Lane{} : sum) : sum);  // what is no number stays so
                }
                copy(to + (r + i) * to_row, own, some);
            }
        }
    }
};

// What a processor computes with: panels of so many columns, and the functions of Computed.
struct Compiled {
    size_t panel;
    void (*outputs)(const Layer&, const std::vector<Panels>&, size_t);
    void (*by_inputs)(const Layer&, const std::vector<Panels>&, size_t);
    void (*by_units)(const Layer&, size_t);
};

#define XPSQL_COMPILED(name, attributes, Lane)                                                                             \
    attributes void name##_outputs(const Layer& layer, const std::vector<Panels>& kernels, size_t part) {                 \
        Computed<Lane>::outputs(layer, kernels, part);                                                                     \
    }                                                                                                                      \
    attributes void name##_by_inputs(const Layer& layer, const std::vector<Panels>& turned, size_t part) {                \
        Computed<Lane>::by_inputs(layer, turned, part);                                                                    \
    }                                                                                                                      \
    attributes void name##_by_units(const Layer& layer, size_t part) { Computed<Lane>::by_units(layer, part); }           \
    constexpr Compiled name = {Computed<Lane>::panel, name##_outputs, name##_by_inputs, name##_by_units};
XPSQL_COMPILED(anywhere, , Lane32)
XPSQL_COMPILED(avx2, XPSQL_WIDE, Lane32)
XPSQL_COMPILED(avx512, XPSQL_WIDEST, Lane64)

const Compiled& compiled() { return widest() ? avx512 : wide() ? avx2 : anywhere; }

Layer layer_of(const Floats& x, const Floats& kernel, const Flags& rectified) {
    const auto sizes = kernel.dimensions();
    Layer layer = {};
    layer.batch = size_t(x.dimensions()[0]), layer.count = size_t(sizes[0]), layer.inputs = size_t(sizes[1]);
    layer.units = size_t(sizes[2]), layer.rectified = rectified.typed_data()[0];
    layer.x = x.typed_data(), layer.kernel = kernel.typed_data();
    return layer;
}

ffi::Error affine(Flags rectified, Floats x, Floats kernel, Floats bias, FloatsOut y) {
    Layer layer = layer_of(x, kernel, rectified);
    layer.bias = bias.typed_data(), layer.y = y->typed_data();
    const Compiled& by = compiled();
    std::vector<Panels> kernels;
    for (size_t n = 0; n < layer.count; ++n)
        kernels.emplace_back(layer.inputs, layer.units, by.panel, layer.kernel + n * layer.inputs * layer.units, layer.units, 1);
    Team::get().run(layer.runs(), [&](size_t part) { by.outputs(layer, kernels, part); });
    return ffi::Error::Success();
}

ffi::Error affine_gradients(Flags rectified, Floats x, Floats kernel, Floats y, Floats outer, FloatsOut by_x, FloatsOut by_kernel,
                            FloatsOut by_bias) {
    Layer layer = layer_of(x, kernel, rectified);
    layer.said = y.typed_data(), layer.outer = outer.typed_data(), layer.by_x = by_x->typed_data();
    layer.by_kernel = by_kernel->typed_data(), layer.by_bias = by_bias->typed_data();
    const Compiled& by = compiled();
    std::vector<Panels> turned;
    for (size_t n = 0; n < layer.count; ++n)
        turned.emplace_back(layer.units, layer.inputs, by.panel, layer.kernel + n * layer.inputs * layer.units, 1, layer.units);
    const size_t runs = layer.runs();
    Team::get().run(runs + layer.count * layer.panels(by.panel), [&](size_t part) {
        if (part < runs) by.by_inputs(layer, turned, part);
        else by.by_units(layer, part - runs);
    });
    return ffi::Error::Success();
}

}  // namespace

}  // namespace xpsql

using Floats = xpsql::Floats;
using Flags = xpsql::Flags;

XLA_FFI_DEFINE_HANDLER_SYMBOL(xpsql_affine, xpsql::affine,
                              ffi::Ffi::Bind().Arg<Flags>().Arg<Floats>().Arg<Floats>().Arg<Floats>().Ret<Floats>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(xpsql_affine_gradients, xpsql::affine_gradients,
                              ffi::Ffi::Bind()
                                  .Arg<Flags>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>()
                                  .Ret<Floats>());
