// What the learner is paid for one step.
//
//   return  step_return * reward_scale           (percent by default)
//   risk    equity change / U, U = k * mean ATR * L * tick value of the training bars: the sum over an episode is its
//           P&L in units of U
//
// Both are made of account P&L alone, so shaping_scale has nothing to multiply in them.
#pragma once
#include "layout.cuh"

namespace FOX_NAMESPACE {

FOX_FN f32 reward_of(f64 equity_before, f64 equity_after, const EnvParams& p) {
    const f64 change = equity_after - equity_before;
    return (f32)(p.reward_mode == REWARD_MODE_RISK ? change / p.risk_unit : change / equity_before * p.reward_scale);
}

}  // namespace FOX_NAMESPACE
