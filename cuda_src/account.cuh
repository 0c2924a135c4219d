// What the account is worth.
//
//   unrealised = position * (mark - average entry) * tick value
//   equity     = cash + unrealised
#pragma once
#include "layout.cuh"

namespace FOX_NAMESPACE {

FOX_FN f64 contracts_of(i32 lots, const EnvParams& p) { return (f64)lots * p.lot; }

// Whole lots in a number of contracts, at least `least`. The factor makes up for binary rounding: 29 % of 100
// contracts is 28.999999999999996 in float64 and means 29.
FOX_FN i32 whole_lots(f64 contracts, i32 least, i32 most, const EnvParams& p) {
    return (i32)clamp(floor_of(contracts / p.lot * (1.0 + 1e-12)), (f64)least, (f64)most);
}

FOX_FN f64 unrealised(const EnvState& s, f64 mark, const EnvParams& p) {
    return contracts_of(s.lots, p) * (mark - s.entry) * p.tick_value;
}

// ATR multiples between a trade on this side and its trailing stop; 0 where it has none.
FOX_FN f64 stop_multiple(i32 side, const f64* knobs) { return knobs[side > 0 ? KNOB_TRAIL_LONG : KNOB_TRAIL_SHORT]; }

// ATR multiples that count as one R of a trade on this side: its stop's, else risk_atr.
FOX_FN f64 risk_multiple(i32 side, const EnvParams& p, const f64* knobs) {
    const f64 stop = stop_multiple(side, knobs);
    return stop > 0.0 ? stop : p.risk_atr;
}

FOX_FN f64 equity_at(const EnvState& s, f64 mark, const EnvParams& p) { return s.cash + unrealised(s, mark, p); }

}  // namespace FOX_NAMESPACE
