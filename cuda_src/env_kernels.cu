// GPU entry points: one thread an environment for the physics, one warp an environment for the observation.
//
// Both halves run in one launch and meet in shared memory. A warp serves only its own 32 environments, so a warp
// barrier is enough. Indices are 64-bit; a batch need not be a multiple of the block.
#include "batch.cuh"

// Groups of rules are compiled in for the environments that use them.
#ifndef FOX_RULES
#define FOX_RULES RULES_NONE
#endif

namespace FOX_NAMESPACE {

enum : i32 {
    BLOCK = 128,
    QUIET_BLOCKS = FOX_RULES == RULES_NONE
        ? 5
        : 4,  // resident blocks a multiprocessor that the learner's step is compiled for
    WARP = 32,
    GROUP = 16,                       // observations whose loads are in flight together
    ACCOUNT_STRIDE = OBS_ACCOUNT + 1  // odd, to avoid bank conflicts
};

// Copy 32 observations, 16 bytes a lane: lanes 0-20 the feature table, lane 21 the seam, lanes 22-31 the account.
// All loads of a group are issued before its first store, so that they overlap.
template <bool MANY>
__device__ __forceinline__ void write_warp_observations(const Batch& b, i64 first_env, i32 bar,
                                                        const f32 (*account)[ACCOUNT_STRIDE], i32 lane) {
    const i64 left = b.num_envs - first_env;
    const i32 count = left < WARP ? (i32)left : WARP;
    const i32 seam = OBS_FEATURES / 4, chunk = lane < seam ? lane : seam;
    const i32 first_entry = lane > seam ? 4 * lane - OBS_FEATURES : 0;
    for (i32 start = 0; start < WARP; start += GROUP) {
        float4 features[GROUP];
#pragma unroll
        for (i32 e = 0; e < GROUP; ++e) {
            const i64 row = __shfl_sync(0xffffffffu, bar, start + e);
            // Beyond the batch bar is 0: the first environment's market has such a row.
            const i64 env = first_env + (start + e < count ? start + e : 0);
            features[e] = __ldg((const float4*)feature_row(market_of<MANY>(b, env), row) + chunk);
        }
#pragma unroll
        for (i32 e = 0; e < GROUP; ++e) {
            if (start + e >= count) break;
            const f32* a = account[start + e] + first_entry;
            float4 v = features[e];
            if (lane > seam) {
                v = make_float4(a[0], a[1], a[2], a[3]);
            } else if (lane == seam) {
                v.z = a[0];
                v.w = a[1];
            }
            __stcs((float4*)(b.obs + (first_env + start + e) * OBS_SIZE) + lane, v);
        }
    }
}

}  // namespace FOX_NAMESPACE

using namespace FOX_NAMESPACE;

// Run `work(env, market, account)`, which returns the bar that the environment observes, and write the observations.
template <bool MANY, typename Work>
__device__ __forceinline__ void observe_block(const Batch& batch, const Work& work) {
    __shared__ f32 account[BLOCK / WARP][WARP][ACCOUNT_STRIDE];
    const i32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const i64 env = (i64)blockIdx.x * BLOCK + threadIdx.x;
    i32 bar = 0;
    if (env < batch.num_envs) bar = work(env, market_of<MANY>(batch, env), account[warp][lane]);
    __syncwarp();
    if (env - lane < batch.num_envs) write_warp_observations<MANY>(batch, env - lane, bar, account[warp], lane);
}

template <bool WITH_INFO, bool MANY, typename Sums>
__device__ __forceinline__ void step_block(const Batch& batch, const Actions& actions, const Sums& metrics) {
    observe_block<MANY>(batch, [&](i64 env, const TradedMarket& market, f32* account) {
        return advance<WITH_INFO, FOX_RULES>(batch, market, env, actions, account, metrics);
    });
}

template <bool MANY>
__device__ __forceinline__ void reset_block(const Batch& batch, const ResetRequest& request) {
    observe_block<MANY>(batch, [&](i64 env, const TradedMarket& market, f32* account) {
        return reset<FOX_RULES>(batch, market, env, request, account);
    });
}

template <bool MANY>
__device__ __forceinline__ void mask_block(const Batch& batch, i32 exposures, u8* out) {
    const i64 env = (i64)blockIdx.x * BLOCK + threadIdx.x;
    if (env < batch.num_envs) write_env_mask<FOX_RULES>(batch, market_of<MANY>(batch, env), env, exposures != 0, out);
}

// One thread a counterfactual, the eight of an environment beside each other.
template <bool MANY>
__device__ __forceinline__ void counterfactual_block(const Batch& batch, const Actions& actions) {
    const i64 thread = (i64)blockIdx.x * BLOCK + threadIdx.x, env = thread / 8;
    if (env < batch.num_envs) {
        evaluate_exposure<FOX_RULES>(batch, market_of<MANY>(batch, env), env, (i32)(thread % 8), actions);
    }
}

// The *_quiet kernels are the step of a learner that asks for no info: fewer live values, so more warps fit a
// multiprocessor. The *_metrics kernels add the step to performance sums as well. The *_markets kernels serve batches of several markets.
extern "C" __global__ void __launch_bounds__(BLOCK) fox_step(const Batch batch, const Actions actions) {
    step_block<true, false>(batch, actions, NoMetrics{});
}
extern "C" __global__ void __launch_bounds__(BLOCK) fox_step_markets(const Batch batch, const Actions actions) {
    step_block<true, true>(batch, actions, NoMetrics{});
}
extern "C" __global__ void __launch_bounds__(BLOCK, QUIET_BLOCKS)
    fox_step_quiet(const Batch batch, const Actions actions) {
    step_block<false, false>(batch, actions, NoMetrics{});
}
extern "C" __global__ void __launch_bounds__(BLOCK) fox_step_quiet_markets(const Batch batch, const Actions actions) {
    step_block<false, true>(batch, actions, NoMetrics{});
}
extern "C" __global__ void __launch_bounds__(BLOCK)
    fox_step_metrics(const Batch batch, const Actions actions, const MetricArrays metrics) {
    step_block<true, false>(batch, actions, Metrics{metrics, batch.num_envs});
}
extern "C" __global__ void __launch_bounds__(BLOCK)
    fox_step_metrics_markets(const Batch batch, const Actions actions, const MetricArrays metrics) {
    step_block<true, true>(batch, actions, Metrics{metrics, batch.num_envs});
}

extern "C" __global__ void __launch_bounds__(BLOCK) fox_reset(const Batch batch, const ResetRequest request) {
    reset_block<false>(batch, request);
}
extern "C" __global__ void __launch_bounds__(BLOCK) fox_reset_markets(const Batch batch, const ResetRequest request) {
    reset_block<true>(batch, request);
}

extern "C" __global__ void __launch_bounds__(BLOCK) fox_masks(const Batch batch, const i32 exposures, u8* out) {
    mask_block<false>(batch, exposures, out);
}
extern "C" __global__ void __launch_bounds__(BLOCK) fox_masks_markets(const Batch batch, const i32 exposures, u8* out) {
    mask_block<true>(batch, exposures, out);
}

extern "C" __global__ void __launch_bounds__(BLOCK) fox_counterfactual(const Batch batch, const Actions actions) {
    counterfactual_block<false>(batch, actions);
}
extern "C" __global__ void __launch_bounds__(BLOCK)
    fox_counterfactual_markets(const Batch batch, const Actions actions) {
    counterfactual_block<true>(batch, actions);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    fox_clear_metrics(const MetricArrays metrics, const i64 num_envs, const u8* mask) {
    const i64 env = (i64)blockIdx.x * BLOCK + threadIdx.x;
    if (env < num_envs) clear_metrics(metrics, num_envs, mask, env);
}

extern "C" __global__ void fox_set_knob(f64* knobs, const i32 index, const f64 value) { knobs[index] = value; }
