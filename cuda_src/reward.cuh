// What the learner is paid for one step.
//
//   return  step_return * reward_scale           (percent by default)
//   risk    equity change / U, U = k * mean ATR * L * tick value of the training bars: the sum over an episode is its
//           P&L in units of U
//   trade   paid where a trade ends, with shaping terms that y = shaping_scale switches on:
//             trade        clamp(P&L / U, loss_cap, gain_cap) of every trade ended in the step; a winner that the agent
//                          ends d bars before min_hold is paid the share 1 - y d / (d + T)
//             path         - max(0, (best P&L of the open trade - its P&L now) / U - path_band)
//             micro        change of the unrealised P&L / U
//             carry        - carry_price for a bar with a position and no order, whatever the action is called
//             opportunity  - what L contracts would have made since the account became flat / U, at the next entry
//           Weights: those above 0 count, as REWARD_WEIGHT_FLOOR at least, the trade's always; all but the trade's are
//           multiplied by y; their sum is brought to 1. With y = 0 the trade term alone is left, at weight 1.
//           A capital floor that ends the episode takes off y * floor_penalty besides.
#pragma once
#include "account.cuh"
#include "layout.cuh"

namespace FOX_NAMESPACE {

constexpr f64 REWARD_WEIGHT_FLOOR = 0.05;

FOX_FN f32 account_reward(f64 equity_before, f64 equity_after, const EnvParams& p) {
    const f64 change = equity_after - equity_before;
    return (f32)(p.reward_mode == REWARD_MODE_RISK ? change / p.risk_unit : change / equity_before * p.reward_scale);
}

// The trade term of one finished trade.
FOX_FN f64 trade_term(f64 pnl, i32 bars_held, i32 reason, const EnvParams& p, const f64* knobs) {
    const f64 paid = clamp(pnl / p.risk_unit, p.loss_cap, p.gain_cap);
    const f64 early = (f64)max_of(p.min_hold - bars_held, 0);
    if (reason != EXIT_REASON_AGENT || pnl <= 0.0 || early == 0.0) return paid;
    return paid * (1.0 - knobs[KNOB_SHAPING_SCALE] * early / (early + knobs[KNOB_EARLY_EXIT_BARS]));
}

// Units of U that the position limit would have made between two prices.
FOX_FN f64 missed_move(i32 side, f64 price, f64 flat_price, const EnvParams& p) {
    const f64 move = max_of((f64)side * (price - flat_price), 0.0);
    return move * contracts_of(p.max_lots, p) * p.tick_value / p.risk_unit;
}

// Weights of the terms: floored, scaled by y, brought to the sum 1.
FOX_FN void weigh_terms(f64* terms, const f64* knobs) {
    f64 weights[REWARD_TERM_COUNT], sum = 0.0;
    for (i32 i = 0; i < REWARD_TERM_COUNT; ++i) {
        const f64 given = knobs[KNOB_WEIGHT_TRADE + i];
        const bool counts = i == REWARD_TERM_TRADE || given > 0.0;
        weights[i] = counts ? max_of(given, REWARD_WEIGHT_FLOOR) : 0.0;
        if (i != REWARD_TERM_TRADE) weights[i] *= knobs[KNOB_SHAPING_SCALE];
        sum += weights[i];
    }
    for (i32 i = 0; i < REWARD_TERM_COUNT; ++i) terms[i] *= weights[i] / sum;
}

// The trade reward of a step: its weighted terms go to info.
FOX_FN f32 trade_reward(StepInfo& info, const EnvState& s, f64 close, f64 unrealised_before, bool carried, bool ruined,
                        const EnvParams& p, const f64* knobs) {
    const f64 open = unrealised(s, close, p);
    f64 terms[REWARD_TERM_COUNT] = {info.trade_reward, 0.0, (open - unrealised_before) / p.risk_unit,
                                    carried ? -p.carry_price : 0.0, -info.missed};
    if (s.lots != 0) {
        const f64 drawdown = (s.trade_mfe - (s.trade_net + open)) / p.risk_unit;
        terms[REWARD_TERM_PATH] = -max_of(drawdown - p.path_band, 0.0);
    }
    weigh_terms(terms, knobs);
    f32 reward = ruined ? (f32)(-knobs[KNOB_SHAPING_SCALE] * p.floor_penalty) : 0.0f;
    for (i32 i = 0; i < REWARD_TERM_COUNT; ++i) {
        info.reward_components.at[i] = (f32)terms[i];
        reward += info.reward_components.at[i];
    }
    return reward;
}

}  // namespace FOX_NAMESPACE
