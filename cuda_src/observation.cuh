// The part of the observation that the physics writes: 32 portfolio and 10 context entries, float32 in [-10, 10].
//
// The 86 market entries before it are rows of the feature table and are copied by the callers.
#pragma once
#include "account.cuh"
#include "costs.cuh"
#include "layout.cuh"
#include "target.cuh"

namespace FOX_NAMESPACE {

FOX_FN f32 entry_of(f64 x) { return (f32)clamp(x, -(f64)OBS_LIMIT, (f64)OBS_LIMIT); }

FOX_FN void observe_position(f32* out, const EnvState& s, const MarketRow& now, f64 equity, const EnvParams& p) {
    const f64 side = (f64)sign_of(s.lots), contracts = contracts_of(absolute(s.lots), p);
    const f64 distance = (now.close - s.entry) / now.atr;
    out[PORTFOLIO_POSITION] = entry_of((f64)s.lots / (f64)p.max_lots);
    out[PORTFOLIO_SIDE] = (f32)side;
    out[PORTFOLIO_UNREALIZED_R] = entry_of(side * distance / p.risk_atr);
    out[PORTFOLIO_BARS_IN_TRADE] = entry_of((f64)s.bars_in_trade / 100.0);
    out[PORTFOLIO_MARGIN_USE] = entry_of(p.maintenance_margin * contracts / max_of(equity, 1.0));
    out[PORTFOLIO_TRADE_MAE_R] = entry_of(s.trade_mae / s.trade_risk);
    out[PORTFOLIO_TRADE_MFE_R] = entry_of(s.trade_mfe / s.trade_risk);
    out[PORTFOLIO_ENTRY_DISTANCE] = entry_of(distance);
    out[PORTFOLIO_TRADE_RETURN] =
        entry_of(100.0 * (s.trade_net + unrealised(s, now.close, p)) / max_of(equity, 1.0));
}

FOX_FN void observe_account(f32* out, const EnvState& s, const MarketRow& now, const EnvParams& p, const f64* knobs) {
    for (int i = 0; i < OBS_ACCOUNT; ++i) out[i] = 0.0f;
    const f64 equity = equity_at(s, now.close, p);
    if (s.lots != 0) observe_position(out, s, now, equity, p);
    out[PORTFOLIO_DRAWDOWN] = entry_of(equity / s.peak_equity - 1.0);
    out[PORTFOLIO_EQUITY_RATIO] = entry_of(equity / p.initial_cash - 1.0);
    out[PORTFOLIO_LAST_TRADE_R] = entry_of(s.last_r);
    out[PORTFOLIO_WIN_RATE] = entry_of(((f64)s.win_count + 1.0) / ((f64)s.trade_count + 2.0) - 0.5);
    out[PORTFOLIO_COSTS_PAID] = entry_of(100.0 * s.costs_paid / p.initial_cash);
    out[PORTFOLIO_TRADES] = entry_of((f64)s.trade_count / 100.0);
    out[PORTFOLIO_MARGIN_HEADROOM] = entry_of((f64)margin_cap(equity, p) / (f64)p.max_lots);

    f32* context = out + PORTFOLIO_SIZE;
    const Costs c = costs_in_force(s, now, p, knobs);
    context[CONTEXT_SPREAD] = entry_of(c.half_spread / now.atr);
    context[CONTEXT_FEE] = entry_of(fee_per_contract(now.close, false, p) / (now.atr * p.tick_value));
    context[CONTEXT_IMPACT] = entry_of(impact(c, contracts_of(p.max_lots, p)) / now.atr);
    context[CONTEXT_TICK] = entry_of(1.0 / now.atr);
    context[CONTEXT_SESSION_PROGRESS] = entry_of(now.session_progress);
    context[CONTEXT_EPISODE_PROGRESS] =
        p.horizon > 0 ? entry_of((f64)(s.bar - s.start_bar) / (f64)p.horizon) : 0.0f;
}

}  // namespace FOX_NAMESPACE
