// The part of the observation that the physics writes: 32 portfolio and 10 context entries, float32 in [-10, 10].
//
// Differences are taken in float64, then every ratio is one float32 division: an observation needs no more, and double
// divisions are what this part would otherwise spend its time on. The 86 market entries before it are rows of the
// feature table and are copied by the callers.
#pragma once
#include "account.cuh"
#include "costs.cuh"
#include "kelly.cuh"
#include "latency.cuh"
#include "layout.cuh"
#include "target.cuh"

namespace FOX_NAMESPACE {

FOX_FN f32 bounded(f32 x) {
    const f32 limit = (f32)OBS_LIMIT;
    return x < -limit ? -limit : (x > limit ? limit : x);
}

FOX_FN f32 ratio(f64 numerator, f64 denominator) { return bounded((f32)numerator / (f32)denominator); }

FOX_FN void observe_position(f32* out, const EnvState& s, const MarketRow& now, f64 equity, const EnvParams& p,
                             const f64* knobs) {
    const f64 contracts = contracts_of(absolute(s.lots), p), side = (f64)sign_of(s.lots);
    const f64 positive_equity = max_of(equity, 1.0), distance = now.close - s.entry;
    out[PORTFOLIO_POSITION] = ratio((f64)s.lots, (f64)p.max_lots);
    out[PORTFOLIO_SIDE] = (f32)side;
    out[PORTFOLIO_UNREALIZED_R] = ratio(side * distance, risk_multiple(s.lots, p, knobs) * now.atr);
    out[PORTFOLIO_BARS_IN_TRADE] = bounded((f32)s.bars_in_trade * 0.01f);
    out[PORTFOLIO_MARGIN_USE] = ratio(p.maintenance_margin * contracts, positive_equity);
    out[PORTFOLIO_TRADE_MAE_R] = ratio(s.trade_mae, s.trade_risk);
    out[PORTFOLIO_TRADE_MFE_R] = ratio(s.trade_mfe, s.trade_risk);
    out[PORTFOLIO_ENTRY_DISTANCE] = ratio(distance, now.atr);
    out[PORTFOLIO_TRADE_RETURN] = ratio(100.0 * (s.trade_net + unrealised(s, now.close, p)), positive_equity);
    if (p.min_hold > 0)
        out[PORTFOLIO_MIN_HOLD_LEFT] = ratio((f64)max_of(bars_to_hold(s, p) - p.latency, 0), (f64)p.min_hold);
}

FOX_FN void observe_context(f32* out, const EnvState& s, const MarketRow& now, const EnvParams& p, const f64* knobs) {
    const Costs c = costs_in_force(s, now, p, knobs);
    out[CONTEXT_SPREAD] = ratio(c.half_spread, now.atr);
    out[CONTEXT_FEE] = ratio(fee_per_contract(now.close, false, p), now.atr * p.tick_value);
    out[CONTEXT_IMPACT] = ratio(impact(c, contracts_of(p.max_lots, p)), now.atr);
    out[CONTEXT_TICK] = ratio(1.0, now.atr);
    out[CONTEXT_SESSION_PROGRESS] = bounded(now.session_progress);
    if (p.horizon > 0) out[CONTEXT_EPISODE_PROGRESS] = ratio((f64)(s.bar - s.start_bar), (f64)p.horizon);
}

template <u32 RULES>
FOX_FN void observe_account(f32* out, const EnvState& s, const MarketRow& now, const EnvParams& p, const f64* knobs) {
    for (int i = 0; i < OBS_ACCOUNT; ++i) out[i] = 0.0f;
    const f64 equity = equity_at(s, now.close, p);
    if (s.lots != 0) observe_position(out, s, now, equity, p, knobs);
    out[PORTFOLIO_DRAWDOWN] = ratio(equity - s.peak_equity, s.peak_equity);
    out[PORTFOLIO_EQUITY_RATIO] = ratio(equity - p.initial_cash, p.initial_cash);
    if ((RULES & RULES_EXITS) && s.lots != 0 && s.stop_distance > 0.0) {
        out[PORTFOLIO_STOP_DISTANCE] = ratio((f64)sign_of(s.lots) * (now.close - s.stop), now.atr);
    }
    if ((RULES & RULES_KELLY) && p.kelly) out[PORTFOLIO_KELLY_CAP] = bounded((f32)kelly_fraction(s, knobs));
    if (RULES & RULES_LATENCY) {
        const i32 under_way = target_lots(pending_intent(s), s.pending_conviction, s.lots, p) - s.lots;
        out[PORTFOLIO_ORDER_UNDER_WAY] = ratio((f64)under_way, (f64)p.max_lots);
    }
    out[PORTFOLIO_LAST_TRADE_R] = bounded((f32)s.last_r);
    out[PORTFOLIO_WIN_RATE] = ratio((f64)s.win_count + 1.0, (f64)s.trade_count + 2.0) - 0.5f;
    out[PORTFOLIO_COSTS_PAID] = ratio(100.0 * s.costs_paid, p.initial_cash);
    out[PORTFOLIO_TRADES] = bounded((f32)s.trade_count * 0.01f);
    out[PORTFOLIO_MARGIN_HEADROOM] = ratio((f64)margin_cap(equity, p), (f64)p.max_lots);
    observe_context(out + PORTFOLIO_SIZE, s, now, p, knobs);
}

}  // namespace FOX_NAMESPACE
