// The physics columns of a market: average true range and mean volume, one sequential pass each.
//
//   TR_t  = max(H, C_{t-1}) - min(L, C_{t-1}),  TR_0 = H - L
//   ATR_t = mean of TR_0..TR_t for t < 14, then (13 ATR_{t-1} + TR_t) / 14 (Wilder 1978); reported as at least 1 tick
//   V_t   = mean volume of the last 20 bars, or of all of them at the start
#pragma once
#include "platform.cuh"

namespace FOX_NAMESPACE {

enum : i64 { ATR_BARS = 14, MEAN_VOLUME_BARS = 20 };

inline void average_true_range(i64 bars, const f64* high, const f64* low, const f64* close, f64* out) {
    f64 sum = 0.0, atr = 0.0;
    for (i64 t = 0; t < bars; ++t) {
        const f64 top = t ? max_of(high[t], close[t - 1]) : high[t];
        const f64 bottom = t ? min_of(low[t], close[t - 1]) : low[t];
        const f64 range = top - bottom;
        sum += t < ATR_BARS ? range : 0.0;
        atr = t < ATR_BARS ? sum / (f64)(t + 1) : (atr * (f64)(ATR_BARS - 1) + range) / (f64)ATR_BARS;
        out[t] = max_of(atr, 1.0);
    }
}

inline void mean_volume(i64 bars, const f64* volume, f64* out) {
    for (i64 t = 0; t < bars; ++t) {
        const i64 first = t + 1 < MEAN_VOLUME_BARS ? 0 : t + 1 - MEAN_VOLUME_BARS;
        f64 sum = 0.0;
        for (i64 j = first; j <= t; ++j) sum += volume[j];
        out[t] = sum / (f64)(t + 1 - first);
    }
}

}  // namespace FOX_NAMESPACE
