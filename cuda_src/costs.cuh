// What a fill costs.
//
//   cost_scale = 1 + x * intensity * (u - 1)         x = exploration_scale, u = the episode's saboteur draw
//   h          = half_spread * cost_scale            ticks
//   impact(n)  = eta * ATR_t * sqrt(n / max(V_t, 1)) * cost_scale        ticks, V_t = mean volume of 20 bars
//   fee(n, P)  = n * (fee_per_side + fee_rate * |P| * tick value)        money; maker_fee replaces fee_per_side
//
// Square-root impact: Almgren et al. 2005, "Direct estimation of equity market impact".
#pragma once
#include "layout.cuh"

namespace FOX_NAMESPACE {

// The costs in force for one step, from the decision bar's volatility and volume.
struct Costs {
    f64 half_spread;   // ticks
    f64 impact_scale;  // ticks: eta * ATR * cost_scale
    f64 mean_volume;   // contracts, at least 1
};

FOX_FN f64 cost_scale(const EnvState& s, const f64* knobs) {
    return 1.0 + knobs[KNOB_EXPLORATION_SCALE] * knobs[KNOB_SABOTEUR_INTENSITY] * (s.cost_draw - 1.0);
}

FOX_FN Costs costs_in_force(const EnvState& s, const MarketRow& decision, const EnvParams& p, const f64* knobs) {
    const f64 scale = cost_scale(s, knobs);
    return {p.half_spread * scale, p.impact_coef * decision.atr * scale, max_of(decision.mean_volume, 1.0)};
}

FOX_FN f64 impact(const Costs& c, f64 contracts) { return c.impact_scale * square_root(contracts / c.mean_volume); }

// Spread and impact of taking `contracts` from the book, in ticks.
FOX_FN f64 taker_slippage(const Costs& c, f64 contracts) { return c.half_spread + impact(c, contracts); }

FOX_FN f64 fee_per_contract(f64 price, bool maker, const EnvParams& p) {
    return (maker ? p.maker_fee : p.fee_per_side) + p.fee_rate * absolute(price) * p.tick_value;
}

}  // namespace FOX_NAMESPACE
