// What every shared header may use, and the arithmetic contract that keeps the CPU and the GPU equal to the last bit.
//
// Three environments include this file:
//   1. NVRTC, for the CUDA backend (no system headers exist there);
//   2. the host C++ compiler, for the CPU backend, once per x86-64 level (FOX_NAMESPACE differs, so no symbol
//      is shared);
//   3. fox_env/_layout.py, which reads only layout.cuh as text.
//
// Arithmetic contract
//   - Prices are float64 in ticks, money and equity float64, observations float32.
//   - Only + - * / sqrt floor and comparisons. No other library function anywhere in shared code, constants included.
//   - No fused multiply-add: fma=False, prec_div, prec_sqrt, ftz=False for NVRTC; -ffp-contract=off for the host.
//   - NaN only as the stored bit constant nan_price(); no fmin/fmax; clamp before any float-to-integer cast.
//   - Unsigned integers for arithmetic that wraps; 64-bit indices; no atomics, so no order of execution can show.
#pragma once

#ifndef FOX_NAMESPACE
#define FOX_NAMESPACE fox
#endif

#ifdef __CUDACC_RTC__
#define FOX_FN __device__ __forceinline__
#else
#define FOX_FN inline __attribute__((always_inline))
#endif

namespace FOX_NAMESPACE {

using f32 = float;
using f64 = double;
using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

struct f64x3 {
    f64 at[3];
};
struct f32x5 {
    f32 at[5];
};

FOX_FN f64 square_root(f64 x) {
#ifdef __CUDACC_RTC__
    return sqrt(x);
#else
    return __builtin_sqrt(x);
#endif
}

FOX_FN f64 floor_of(f64 x) {
#ifdef __CUDACC_RTC__
    return floor(x);
#else
    return __builtin_floor(x);
#endif
}

// What a step reads or writes once leaves the GPU's caches first, so that the market's tables stay in them.
template <typename T>
FOX_FN T load_once(const T* from) {
#ifdef __CUDACC_RTC__
    return __ldcs(from);
#else
    return *from;
#endif
}

template <typename T>
FOX_FN void store_once(T* to, T value) {
#ifdef __CUDACC_RTC__
    __stcs(to, value);
#else
    *to = value;
#endif
}

FOX_FN f64 ceil_of(f64 x) { return -floor_of(-x); }

FOX_FN f64 min_of(f64 a, f64 b) { return a < b ? a : b; }
FOX_FN f64 max_of(f64 a, f64 b) { return a > b ? a : b; }
FOX_FN f64 clamp(f64 x, f64 low, f64 high) { return x < low ? low : (x > high ? high : x); }
FOX_FN f64 absolute(f64 x) { return x < 0.0 ? -x : x; }
FOX_FN i32 min_of(i32 a, i32 b) { return a < b ? a : b; }
FOX_FN i32 max_of(i32 a, i32 b) { return a > b ? a : b; }
FOX_FN i32 absolute(i32 x) { return x < 0 ? -x : x; }
FOX_FN i32 sign_of(i32 x) { return (x > 0) - (x < 0); }

// The price of a fill that did not happen.
FOX_FN f64 nan_price() {
#ifdef __CUDACC_RTC__
    return __longlong_as_double(0x7ff8000000000000LL);
#else
    return __builtin_nan("");
#endif
}

}  // namespace FOX_NAMESPACE
