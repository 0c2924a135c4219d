// CPU entry points of one x86-64 level: the shared headers in a parallel loop over environments.
#include "host_level.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace FOX_NAMESPACE {

namespace {

// Worker threads may carry a caller's flush-to-zero or rounding mode; every loop runs with the default one.
class DefaultRounding {
  public:
#if defined(__x86_64__)
    DefaultRounding() : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80); }
    ~DefaultRounding() { _mm_setcsr(saved_); }

  private:
    unsigned saved_;
#endif
};

// Below this many environments a parallel region costs more than it saves.
constexpr i64 PARALLEL_FROM = 256;

template <typename Body>
void for_each_env(i64 num_envs, i32 threads, const Body& body) {
    if (num_envs < PARALLEL_FROM || threads == 1) {
        DefaultRounding rounding;
        for (i64 i = 0; i < num_envs; ++i) body(i);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        DefaultRounding rounding;
#pragma omp for schedule(static)
        for (i64 i = 0; i < num_envs; ++i) body(i);
    }
}

// Environments sit on unrelated bars, so every step gathers rows at random; ask for a later environment's rows early.
// Inlined by force: the compiler takes a function that only prefetches for one without effect and drops the call.
constexpr i64 PREFETCH_AHEAD = 6;

template <bool MANY>
FOX_FN void prefetch_rows(const Batch& b, i64 i) {
    if (i >= b.num_envs) return;
    const TradedMarket& m = market_of<MANY>(b, i);
    const i64 bar = b.state.bar[i];
    __builtin_prefetch(m.rows + bar);
    __builtin_prefetch(m.rows + bar + 1);
    const char* features = (const char*)feature_row(m, bar + 1);
    for (i32 byte = 0; byte < OBS_FEATURE_STRIDE * (i32)sizeof(f32); byte += 64) __builtin_prefetch(features + byte);
}

template <bool WITH_INFO, bool MANY, u32 RULES, typename Sums>
void step_batch(const Batch& b, const Actions& actions, const Sums& metrics, i32 threads) {
    for_each_env(b.num_envs, threads, [&](i64 i) {
        prefetch_rows<MANY>(b, i + PREFETCH_AHEAD);
        const TradedMarket& m = market_of<MANY>(b, i);
        f32* obs = b.obs + i * OBS_SIZE;
        const i32 bar = advance<WITH_INFO, RULES>(b, m, i, actions, obs + OBS_FEATURES, metrics);
        copy_features(obs, m, bar);
    });
}

template <bool MANY, u32 RULES>
void step_batch_of(const Batch& b, const Actions& actions, const MetricArrays* metrics, i32 threads) {
    if (metrics) {
        step_batch<true, MANY, RULES>(b, actions, Metrics{*metrics, b.num_envs}, threads);
    } else if (wants_info(b)) {
        step_batch<true, MANY, RULES>(b, actions, NoMetrics{}, threads);
    } else {
        step_batch<false, MANY, RULES>(b, actions, NoMetrics{}, threads);
    }
}

// Two steps are compiled: the plain one and the one with every group of rules.
void step_any_batch(const Batch& b, const Actions& actions, const MetricArrays* metrics, i32 threads) {
    if (b.markets) {
        (b.rules ? step_batch_of<true, RULES_ALL> : step_batch_of<true, RULES_NONE>)(b, actions, metrics, threads);
    } else {
        (b.rules ? step_batch_of<false, RULES_ALL> : step_batch_of<false, RULES_NONE>)(b, actions, metrics, threads);
    }
}

void clear_metrics_of(const MetricArrays& metrics, i64 num_envs, const u8* mask) {
    for (i64 i = 0; i < num_envs; ++i) clear_metrics(metrics, num_envs, mask, i);
}

const TradedMarket& any_market_of(const Batch& b, i64 i) {
    return b.markets ? market_of<true>(b, i) : market_of<false>(b, i);
}

void reset_batch(const Batch& b, const ResetRequest& request, i32 threads) {
    for_each_env(b.num_envs, threads, [&](i64 i) {
        const TradedMarket& m = any_market_of(b, i);
        f32* obs = b.obs + i * OBS_SIZE;
        const i32 bar = reset<RULES_ALL>(b, m, i, request, obs + OBS_FEATURES);
        copy_features(obs, m, bar);
    });
}

void mask_batch(const Batch& b, i32 exposures, u8* out, i32 threads) {
    for_each_env(b.num_envs, threads,
                 [&](i64 i) { write_env_mask<RULES_ALL>(b, any_market_of(b, i), i, exposures != 0, out); });
}

void counterfactual_batch(const Batch& b, const Actions& actions, i32 threads) {
    for_each_env(b.num_envs, threads, [&](i64 i) {
        const TradedMarket& m = any_market_of(b, i);
        for (i32 exposure = 0; exposure < ACTION_SPACE_EXPOSURES; ++exposure)
            evaluate_exposure<RULES_ALL>(b, m, i, exposure, actions);
    });
}

// Whether all rows of the usual action array are inside the space, without a branch a row.
bool all_valid(const i64* rows, i64 num_envs) {
    bool valid = true;
    for (i64 i = 0; i < num_envs; ++i) {
        valid &= valid_branches(rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3]);
    }
    return valid;
}

// The first row outside the action space, or -1.
i64 first_bad_action(const Actions& actions, i64 num_envs) {
    if (actions.format == ACTION_FORMAT_BRANCHES_I64 && all_valid((const i64*)actions.values, num_envs)) return -1;
    for (i64 i = 0; i < num_envs; ++i) {
        if (decode_action(load_action(actions, i), actions.format).invalid) return i;
    }
    return -1;
}

void physics_columns(i64 bars, const f64* high, const f64* low, const f64* close, const f64* volume, f64* atr,
                     f64* mean) {
    DefaultRounding rounding;
    average_true_range(bars, high, low, close, atr);
    mean_volume(bars, volume, mean);
}

void philox_words(const u32* counter, const u32* key, u32* out) {
    const u64 packed = (u64)key[1] << 32 | key[0];
    const Philox draw = philox(packed, counter[0], counter[1], counter[2], counter[3]);
    for (i32 j = 0; j < 4; ++j) out[j] = draw.word[j];
}

}  // namespace

extern const HostLevel host_level = {step_any_batch,   reset_batch,      mask_batch,      counterfactual_batch,
                                     clear_metrics_of, first_bad_action, physics_columns, philox_words};

}  // namespace FOX_NAMESPACE
