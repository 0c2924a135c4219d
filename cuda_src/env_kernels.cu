// GPU entry points: one thread an environment for the physics, one warp an environment for the observation.
//
// Both halves run in one launch and meet in shared memory. A warp serves only its own 32 environments, so a warp
// barrier is enough. Indices are 64-bit; a batch need not be a multiple of the block.
#include "batch.cuh"

namespace FOX_NAMESPACE {

enum : i32 { BLOCK = 128, WARP = 32, ACCOUNT_STRIDE = OBS_ACCOUNT + 1 };  // an odd stride avoids bank conflicts

// Copy 32 observations, 16 bytes a lane: lanes 0-20 the feature table, lane 21 the seam, lanes 22-31 the account.
__device__ __forceinline__ void write_warp_observations(const Batch& b, i64 first_env, i32 bar,
                                                        const f32 (*account)[ACCOUNT_STRIDE], i32 lane) {
    const i64 left = b.num_envs - first_env;
    const i32 count = left < WARP ? (i32)left : WARP;
    const i32 seam = OBS_FEATURES / 4;
#pragma unroll 8
    for (i32 e = 0; e < count; ++e) {
        const i64 row = __shfl_sync(0xffffffffu, bar, e);
        const f32* features = b.features + row * OBS_FEATURE_STRIDE;
        float4 v;
        if (lane < seam) {
            v = __ldg((const float4*)features + lane);
        } else if (lane == seam) {
            v = make_float4(features[4 * seam], features[4 * seam + 1], account[e][0], account[e][1]);
        } else {
            const f32* a = account[e] + 4 * lane - OBS_FEATURES;
            v = make_float4(a[0], a[1], a[2], a[3]);
        }
        __stcs((float4*)(b.obs + (first_env + e) * OBS_SIZE) + lane, v);
    }
}

}  // namespace FOX_NAMESPACE

using namespace FOX_NAMESPACE;

extern "C" __global__ void __launch_bounds__(BLOCK) fox_step(const Batch batch, const Actions actions) {
    __shared__ f32 account[BLOCK / WARP][WARP][ACCOUNT_STRIDE];
    const i32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const i64 env = (i64)blockIdx.x * BLOCK + threadIdx.x;
    i32 bar = 0;
    if (env < batch.num_envs) bar = advance(batch, env, actions, account[warp][lane]);
    __syncwarp();
    write_warp_observations(batch, env - lane, bar, account[warp], lane);
}

extern "C" __global__ void __launch_bounds__(BLOCK) fox_reset(const Batch batch, const ResetRequest request) {
    __shared__ f32 account[BLOCK / WARP][WARP][ACCOUNT_STRIDE];
    const i32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const i64 env = (i64)blockIdx.x * BLOCK + threadIdx.x;
    i32 bar = 0;
    if (env < batch.num_envs) bar = reset(batch, env, request, account[warp][lane]);
    __syncwarp();
    write_warp_observations(batch, env - lane, bar, account[warp], lane);
}

extern "C" __global__ void __launch_bounds__(BLOCK) fox_masks(const Batch batch, const i32 exposures, u8* out) {
    const i64 env = (i64)blockIdx.x * BLOCK + threadIdx.x;
    if (env < batch.num_envs) write_mask(batch, env, exposures != 0, out);
}

extern "C" __global__ void fox_set_knob(f64* knobs, const i32 index, const f64 value) { knobs[index] = value; }
