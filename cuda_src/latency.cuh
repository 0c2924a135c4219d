// Latency of one bar: what is decided at the close of bar t is executed in bar t+2, after a bar under way.
//
// An intent is a target, so the order it leads to is the difference to the position that is open when it is executed. A
// limit price and the tolerance of an IOC order refer to the close at which the intent was decided.
#pragma once
#include "layout.cuh"
#include "target.cuh"

namespace FOX_NAMESPACE {

// The intent under way; Hold where there is none.
FOX_FN Intent pending_intent(const EnvState& s) {
    if (s.pending < 2u) return hold_intent(s.pending == 1u);
    // A loaded state may hold any word: none reaches beyond a table or the position limit.
    const i32 side = min_of((i32)(s.pending >> 1 & 3u) - 1, 1);
    const i32 type = min_of((i32)(s.pending >> 3 & 3u), (i32)ORDER_TYPE_IOC);
    const i32 urgency = min_of((i32)(s.pending >> 5 & 3u), (i32)URGENCY_AGGRESSIVE);
    return {side, s.pending_exposure, type, urgency, false, (s.pending >> 7 & 1u) != 0, false};
}

// Put an intent under way. 0 is Hold, 1 an action outside the space; other intents have the bit 256.
FOX_FN void send_intent(EnvState& s, const Intent& a, f64 conviction, f64 close) {
    const u32 code =
        256u | (u32)(a.side + 1) << 1 | (u32)a.order_type << 3 | (u32)a.urgency << 5 | (u32)a.whole_lot << 7;
    s.pending = a.hold ? (u32)a.invalid : code;
    s.pending_exposure = a.hold ? 0.0 : a.exposure;
    s.pending_conviction = a.hold ? 0.0 : conviction;
    s.pending_close = close;
}

}  // namespace FOX_NAMESPACE
