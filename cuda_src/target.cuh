// From an action to the order it asks for: the target position, and the caps on what an order may open.
//
//   |target| = max(1 lot, m * L rounded half up to the lot), m = 1/4, 1/2, 1; Flat 0; Hold the position
//   a conviction in [0, 1] multiplies m * L before rounding; conviction 0 asks for a flat position
//   cap      = floor(equity_t / initial margin) in lots, or the Kelly cap where it is tighter
//   same side  min(|target|, max(cap, |position|));  other side  min(|target|, cap)
//
// Caps limit what an order may open and never force a reduction. With a hard minimum hold an order is ignored that
// would be executed in a trade younger than min_hold bars.
#pragma once
#include "account.cuh"
#include "kelly.cuh"
#include "layout.cuh"

namespace FOX_NAMESPACE {

// A decoded action. `exposure` is |target| as a fraction of max_position before rounding to lots.
struct Intent {
    i32 side;  // -1, 0 (flat), +1
    f64 exposure;
    i32 order_type;
    i32 urgency;
    bool hold;       // keep the position; the rest is ignored
    bool whole_lot;  // a nonzero exposure asks for one lot at least
    bool invalid;    // outside the action space
};

struct Order {
    i32 lots;  // signed: target - position
    i32 type;
    i32 urgency;
    i32 status;  // ORDER_STATUS_NONE, or what cut the target
};

// Lots that may be open on a side, and the rule that says so.
struct Cap {
    i32 lots;
    i32 status;
};

FOX_FN Intent hold_intent(bool invalid) { return {0, 0.0, ORDER_TYPE_MARKET, URGENCY_NORMAL, true, false, invalid}; }

FOX_FN bool valid_branches(i64 direction, i64 magnitude, i64 order_type, i64 urgency) {
    return ((u64)direction <= DIRECTION_FLAT) & ((u64)magnitude <= MAGNITUDE_FULL) &
           ((u64)order_type <= ORDER_TYPE_IOC) & ((u64)urgency <= URGENCY_AGGRESSIVE);
}

FOX_FN Intent branch_intent(i64 direction, i64 magnitude, i64 order_type, i64 urgency) {
    const bool valid = valid_branches(direction, magnitude, order_type, urgency);
    if (!valid || direction == DIRECTION_HOLD) return hold_intent(!valid);
    const i32 side = direction == DIRECTION_LONG ? 1 : (direction == DIRECTION_SHORT ? -1 : 0);
    const f64 exposure = magnitude == MAGNITUDE_FULL ? 1.0 : (magnitude == MAGNITUDE_HALF ? 0.5 : 0.25);
    return {side, exposure, (i32)order_type, (i32)urgency, false, true, false};
}

// Eight exposures: short full, half, quarter; hold; long quarter, half, full; flat.
FOX_FN Intent discrete_intent(i64 action) {
    if (action < 0 || action > 7) return hold_intent(true);
    if (action == 3) return hold_intent(false);
    if (action == 7) return branch_intent(DIRECTION_FLAT, MAGNITUDE_FULL, ORDER_TYPE_MARKET, URGENCY_NORMAL);
    const i64 magnitude = action < 3 ? MAGNITUDE_FULL - action : action - 4;
    return branch_intent(action < 3 ? DIRECTION_SHORT : DIRECTION_LONG, magnitude, ORDER_TYPE_MARKET, URGENCY_NORMAL);
}

FOX_FN Intent continuous_intent(f32 action) {
    if (!(action >= -1.0f && action <= 1.0f)) return hold_intent(true);
    const i32 side = (action > 0.0f) - (action < 0.0f);
    const f64 exposure = absolute((f64)action);
    return {side, exposure, ORDER_TYPE_MARKET, URGENCY_NORMAL, false, false, false};
}

FOX_FN i32 target_lots(const Intent& a, f64 conviction, i32 position, const EnvParams& p) {
    if (a.hold) return position;
    const f64 exposure = a.exposure * conviction;
    if (a.side == 0 || exposure <= 0.0) return 0;
    const i32 rounded = (i32)floor_of(exposure * (f64)p.max_lots + 0.5);
    return a.side * (a.whole_lot ? max_of(rounded, 1) : rounded);
}

// Lots that the initial margin allows.
FOX_FN i32 margin_cap(f64 equity, const EnvParams& p) {
    if (p.initial_margin <= 0.0) return p.max_lots;
    return whole_lots(equity / p.initial_margin, 0, p.max_lots, p);
}

// The tighter of the caps in force.
template <u32 RULES>
FOX_FN Cap position_cap(const EnvState& s, f64 equity, const EnvParams& p, const f64* knobs) {
    const i32 margin = margin_cap(equity, p);
    if (!(RULES & RULES_KELLY) || !p.kelly) return {margin, ORDER_STATUS_MARGIN};
    const i32 kelly = kelly_cap(s, p, knobs);
    return kelly < margin ? Cap{kelly, ORDER_STATUS_KELLY} : Cap{margin, ORDER_STATUS_MARGIN};
}

// Bars that the open trade is still too young for an order executed in the next bar.
FOX_FN i32 bars_to_hold(const EnvState& s, const EnvParams& p) {
    return s.lots != 0 ? max_of(p.min_hold - (s.bars_in_trade + 1), 0) : 0;
}

// The order that brings the position to the target.
FOX_FN Order order_for(const Intent& a, f64 conviction, const EnvState& s, const Cap& cap, const EnvParams& p) {
    const i32 wanted = target_lots(a, conviction, s.lots, p);
    if (p.hard_hold && wanted != s.lots && bars_to_hold(s, p) > 0) {
        return {0, a.order_type, a.urgency, ORDER_STATUS_MIN_HOLD};
    }
    const bool same_side = (i64)wanted * s.lots > 0;
    const i32 allowed = min_of(absolute(wanted), same_side ? max_of(cap.lots, absolute(s.lots)) : cap.lots);
    const i32 target = sign_of(wanted) * allowed;
    const bool cut = allowed < absolute(wanted);
    const i32 status = a.invalid ? (i32)ORDER_STATUS_INVALID : (cut ? cap.status : (i32)ORDER_STATUS_NONE);
    return {target - s.lots, a.order_type, a.urgency, status};
}

}  // namespace FOX_NAMESPACE
