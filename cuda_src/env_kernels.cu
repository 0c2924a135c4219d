// GPU entry points: one thread an environment for the physics, one warp an environment for the observation.
//
// Both halves run in one launch and meet in shared memory. A warp serves only its own environments, 32 or, in a batch
// that would leave schedulers without a warp, fewer; so a warp barrier is enough. Indices are 64-bit; a batch need not
// be a multiple of the block.
#include "batch.cuh"

// Groups of rules are compiled in for the environments that use them.
#ifndef FOX_RULES
#define FOX_RULES RULES_NONE
#endif

namespace FOX_NAMESPACE {

enum : i32 {
    BLOCK = LAUNCH_BLOCK,
    WARP = LAUNCH_WARP,
    // Resident blocks a multiprocessor that the learner's step is compiled for: as many as do without register spills.
    QUIET_BLOCKS = FOX_RULES & ~RULES_EXITS ? 3 : 4,
    GROUP = 16,                           // observations whose loads are in flight together
    SEAM = OBS_FEATURES / 4,              // the 16-byte chunk with the last features and the first account entries
    FRONT = OBS_FEATURES % 4,             // its features
    ACCOUNT_STRIDE = FRONT + OBS_ACCOUNT  // floats; account entries lie in shared memory as in the observation
};
static_assert(OBS_SIZE == 4 * WARP && FRONT == 2 && ACCOUNT_STRIDE % 4 == 0, "a lane copies 16 bytes");

// A lane's 16 bytes of an observation: of `features`, of the account beyond the seam, two and two at the seam. The two
// loads are predicated in assembly because the compiler makes branches of them, and those cost more than the loads.
__device__ __forceinline__ float4 with_account(float4 features, const f32* account, i32 lane) {
    const u32 from = (u32)__cvta_generic_to_shared(account + (lane > SEAM ? 4 * (lane - SEAM) : 0));
    asm volatile(
        "{\n"
        ".reg .pred beyond, seam;\n"
        "setp.gt.s32 beyond, %5, %6;\n"
        "setp.eq.s32 seam, %5, %6;\n"
        "@beyond ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
        "@seam ld.shared.v2.f32 {%2, %3}, [%4 + 8];\n"
        "}"
        : "+f"(features.x), "+f"(features.y), "+f"(features.z), "+f"(features.w)
        : "r"(from), "r"(lane), "n"((i32)SEAM)
        : "memory");
    return features;
}

// Copy `count` observations, 16 bytes a lane: lanes 0-20 the feature table, lane 21 the seam, lanes 22-31 the account.
// All loads of a group are issued before its first store, so that they overlap.
template <bool MANY>
__device__ __forceinline__ void write_warp_observations(const Batch& b, i64 first_env, i32 count, i32 bar,
                                                        const f32 (*account)[ACCOUNT_STRIDE], i32 lane) {
    const i32 chunk = lane < SEAM ? lane : SEAM;
    float4* out = (float4*)(b.obs + first_env * OBS_SIZE) + lane;
    for (i32 start = 0; start < count; start += GROUP) {
        float4 features[GROUP];
#pragma unroll
        for (i32 e = 0; e < GROUP; ++e) {
            const i64 row = __shfl_sync(0xffffffffu, bar, start + e);
            // Beyond the warp's environments bar is 0: the first environment's market has such a row.
            const i64 env = first_env + (start + e < count ? start + e : 0);
            features[e] = __ldg((const float4*)feature_row(market_of<MANY>(b, env), row) + chunk);
        }
#pragma unroll
        for (i32 e = 0; e < GROUP; ++e) {
            const float4 v = with_account(features[e], account[start + e], lane);
            if (start + e < count) __stcs(out + WARP * (start + e), v);
        }
    }
}

}  // namespace FOX_NAMESPACE

using namespace FOX_NAMESPACE;

// Run `work(env, market, account)`, which returns the bar that the environment observes, and write the observations.
// A warp serves `share` environments, at most 32.
template <bool MANY, typename Work>
__device__ __forceinline__ void observe_block(const Batch& batch, i32 share, const Work& work) {
    __shared__ alignas(16) f32 account[BLOCK / WARP][WARP][ACCOUNT_STRIDE];
    const i32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const i64 first_env = ((i64)blockIdx.x * (BLOCK / WARP) + warp) * share, left = batch.num_envs - first_env;
    if (left <= 0) return;
    const i32 count = left < share ? (i32)left : share;
    const i64 env = first_env + lane;
    i32 bar = 0;
    if (lane < count) bar = work(env, market_of<MANY>(batch, env), account[warp][lane] + FRONT);
    __syncwarp();
    write_warp_observations<MANY>(batch, first_env, count, bar, account[warp], lane);
}

template <bool WITH_INFO, bool MANY, typename Sums>
__device__ __forceinline__ void step_block(const Batch& batch, const Actions& actions, i32 share, const Sums& metrics) {
    observe_block<MANY>(batch, share, [&](i64 env, const TradedMarket& market, f32* account) {
        return advance<WITH_INFO, FOX_RULES>(batch, market, env, actions, account, metrics);
    });
}

template <bool MANY>
__device__ __forceinline__ void reset_block(const Batch& batch, const ResetRequest& request, i32 share) {
    observe_block<MANY>(batch, share, [&](i64 env, const TradedMarket& market, f32* account) {
        return reset<FOX_RULES>(batch, market, env, request, account);
    });
}

template <bool MANY>
__device__ __forceinline__ void mask_block(const Batch& batch, i32 exposures, u8* out) {
    const i64 env = (i64)blockIdx.x * BLOCK + threadIdx.x;
    if (env < batch.num_envs) write_env_mask<FOX_RULES>(batch, market_of<MANY>(batch, env), env, exposures != 0, out);
}

// One thread a counterfactual, those of an environment beside each other.
template <bool MANY>
__device__ __forceinline__ void counterfactual_block(const Batch& batch, const Actions& actions) {
    const i64 thread = (i64)blockIdx.x * BLOCK + threadIdx.x, env = thread / ACTION_SPACE_EXPOSURES;
    if (env < batch.num_envs) {
        const i32 exposure = (i32)(thread % ACTION_SPACE_EXPOSURES);
        evaluate_exposure<FOX_RULES>(batch, market_of<MANY>(batch, env), env, exposure, actions);
    }
}

// The *_quiet kernels are the step of a learner that asks for no info. The *_metrics kernels add the step to
// performance sums as well. The *_markets kernels serve batches of several markets.
extern "C" __global__ void __launch_bounds__(BLOCK)
    fox_step(const Batch batch, const Actions actions, const i32 share) {
    step_block<true, false>(batch, actions, share, NoMetrics{});
}
extern "C" __global__ void __launch_bounds__(BLOCK)
    fox_step_markets(const Batch batch, const Actions actions, const i32 share) {
    step_block<true, true>(batch, actions, share, NoMetrics{});
}
extern "C" __global__ void __launch_bounds__(BLOCK, QUIET_BLOCKS)
    fox_step_quiet(const Batch batch, const Actions actions, const i32 share) {
    step_block<false, false>(batch, actions, share, NoMetrics{});
}
extern "C" __global__ void __launch_bounds__(BLOCK)
    fox_step_quiet_markets(const Batch batch, const Actions actions, const i32 share) {
    step_block<false, true>(batch, actions, share, NoMetrics{});
}
extern "C" __global__ void __launch_bounds__(BLOCK)
    fox_step_metrics(const Batch batch, const Actions actions, const i32 share, const MetricArrays metrics) {
    step_block<true, false>(batch, actions, share, Metrics{metrics, batch.num_envs});
}
extern "C" __global__ void __launch_bounds__(BLOCK)
    fox_step_metrics_markets(const Batch batch, const Actions actions, const i32 share, const MetricArrays metrics) {
    step_block<true, true>(batch, actions, share, Metrics{metrics, batch.num_envs});
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    fox_reset(const Batch batch, const ResetRequest request, const i32 share) {
    reset_block<false>(batch, request, share);
}
extern "C" __global__ void __launch_bounds__(BLOCK)
    fox_reset_markets(const Batch batch, const ResetRequest request, const i32 share) {
    reset_block<true>(batch, request, share);
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

// A thread copies 16 bytes of the outputs to every part that has them. The last bytes of a part go one by one, since
// what lies behind them is not the batch's.
extern "C" __global__ void __launch_bounds__(BLOCK) fox_copy_outputs(const OutputCopies copies) {
    const i64 at = ((i64)blockIdx.x * BLOCK + threadIdx.x) * (i64)sizeof(uint4);
#pragma unroll
    for (i32 part = 0; part < LAUNCH_COPIES; ++part) {
        const i64 offset = at - copies.first[part], left = copies.bytes[part] - offset;
        if (offset < 0 || left <= 0) continue;
        u8* to = copies.to[part] + offset;
        if (left >= (i64)sizeof(uint4)) {
            *(uint4*)to = *(const uint4*)(copies.outputs + at);
        } else {
            for (i64 i = 0; i < left; ++i) to[i] = copies.outputs[at + i];
        }
    }
}

extern "C" __global__ void fox_set_knob(f64* knobs, const i32 index, const f64 value) { knobs[index] = value; }
