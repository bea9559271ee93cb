// The Python module xpsql.platform.ps._native. Its contract is _native.pyi.
#include <nanobind/nanobind.h>

#include "parallel.hpp"

namespace xpsql {

void bind_arguments(nanobind::module_& module);
void bind_arrays(nanobind::module_& module);
void bind_calibrate(nanobind::module_& module);
void bind_counter(nanobind::module_& module);
void bind_cross(nanobind::module_& module);
void bind_graph(nanobind::module_& module);
void bind_hash(nanobind::module_& module);
void bind_image(nanobind::module_& module);
void bind_json_doubts(nanobind::module_& module);
void bind_row_encoder(nanobind::module_& module);
void bind_row_scorer(nanobind::module_& module);
void bind_runs(nanobind::module_& module);
void bind_slot_counts(nanobind::module_& module);
void bind_sums(nanobind::module_& module);
void bind_swing(nanobind::module_& module);
void bind_two_choice(nanobind::module_& module);
void bind_unique(nanobind::module_& module);
void bind_placement(nanobind::module_& module);
void bind_walks(nanobind::module_& module);
void bind_codec(nanobind::module_& module);
void bind_frames(nanobind::module_& module);
void bind_store(nanobind::module_& module);

}  // namespace xpsql

NB_MODULE(_native, module) {
    module.doc() = "Hashing, uniqueness, placement, counters and the row store of the parameter server; images of weights and scores of them.";
    xpsql::bind_arguments(module);
    xpsql::bind_arrays(module);
    xpsql::bind_calibrate(module);
    xpsql::bind_counter(module);
    xpsql::bind_cross(module);
    xpsql::bind_graph(module);
    xpsql::bind_hash(module);
    xpsql::bind_image(module);
    xpsql::bind_json_doubts(module);
    xpsql::bind_row_encoder(module);
    xpsql::bind_row_scorer(module);
    xpsql::bind_runs(module);
    xpsql::bind_slot_counts(module);
    xpsql::bind_sums(module);
    xpsql::bind_swing(module);
    xpsql::bind_two_choice(module);
    xpsql::bind_unique(module);
    xpsql::bind_placement(module);
    xpsql::bind_walks(module);
    xpsql::bind_codec(module);
    xpsql::bind_frames(module);
    xpsql::bind_store(module);
    module.def("set_threads", [](size_t count) { xpsql::Team::get().set_threads(count); }, nanobind::arg("count"));
}
