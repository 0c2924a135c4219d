// Counter-based random numbers: a draw depends on (seed, environment, episode, step, purpose) and on nothing else, so
// batch size, device and order of execution cannot change it.
//
//   Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), integers only;
//   key = splitmix64(seed); uniform = (27 high bits, 26 high bits) / 2^53, in [0, 1).
#pragma once
#include "platform.cuh"

namespace FOX_NAMESPACE {

struct Philox {
    u32 word[4];
};

FOX_FN Philox philox(u64 key, u32 stream, u32 episode, u32 step, u32 purpose) {
    u32 c0 = stream, c1 = episode, c2 = step, c3 = purpose;
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

FOX_FN f64 uniform(const Philox& draw) {
    return ((f64)(draw.word[0] >> 5) * 67108864.0 + (f64)(draw.word[1] >> 6)) / 9007199254740992.0;
}

// An integer in [0, count) by multiply-and-shift; the bias is below count / 2^32.
FOX_FN u32 uniform_below(const Philox& draw, u32 count) { return (u32)(((u64)draw.word[0] * count) >> 32); }

}  // namespace FOX_NAMESPACE
