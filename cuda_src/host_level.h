// The functions that every compiled x86-64 level offers; host_library.cpp picks one level at load time.
#pragma once
#include "batch.cuh"
#include "volatility.cuh"

namespace FOX_NAMESPACE {

struct HostLevel {
    void (*step)(const Batch&, const Actions&, const MetricArrays* metrics, i32 threads);
    void (*reset)(const Batch&, const ResetRequest&, i32 threads);
    void (*masks)(const Batch&, i32 exposures, u8* out, i32 threads);
    void (*counterfactual)(const Batch&, const Actions&, i32 threads);
    void (*clear_metrics)(const MetricArrays&, i64 num_envs, const u8* mask);
    i64 (*first_bad_action)(const Actions&, i64 num_envs);
    void (*physics_columns)(i64 bars, const f64* high, const f64* low, const f64* close, const f64* volume, f64* atr,
                            f64* mean);
    void (*philox)(const u32* counter, const u32* key, u32* out);
};

extern const HostLevel host_level;

}  // namespace FOX_NAMESPACE
