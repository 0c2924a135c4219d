// The Kelly cap: a record of finished trades limits what an order may open.
//
//   W, losses   winning and other trades; gain, loss: sums of the sizes of their returns; all four decay with a
//               half-life of 50 trades, are kept over episodes and cleared by seeding
//   p           = (W + 1) / (W + losses + 2)
//   b           = ((gain + s) / (W + 1)) / ((loss + s) / (losses + 1)), s = 0.001
//   f           = clamp(p - (1 - p) / b, 0, 1)
//   maturity    = min(1, (W + losses) / 10)
//   kappa       = max(maturity f + (1 - maturity) / 2, floor) safety
//   cap         = max(1 lot, kappa L) in whole lots, at most L
//
// The floor keeps a losing record from locking the account out. Kelly 1956, "A new interpretation of information rate".
#pragma once
#include "account.cuh"
#include "layout.cuh"

namespace FOX_NAMESPACE {

FOX_FN f64 kelly_fraction(const EnvState& s, const f64* knobs) {
    const f64 wins = s.kelly_wins, losses = s.kelly_losses, prior = 0.001;
    const f64 p = (wins + 1.0) / (wins + losses + 2.0);
    const f64 payoff = ((s.kelly_gain + prior) / (wins + 1.0)) / ((s.kelly_loss + prior) / (losses + 1.0));
    const f64 f = clamp(p - (1.0 - p) / payoff, 0.0, 1.0);
    const f64 maturity = min_of(1.0, (wins + losses) / 10.0);
    return max_of(maturity * f + (1.0 - maturity) * 0.5, knobs[KNOB_KELLY_FLOOR]) * knobs[KNOB_KELLY_SAFETY];
}

FOX_FN i32 kelly_cap(const EnvState& s, const EnvParams& p, const f64* knobs) {
    return whole_lots(kelly_fraction(s, knobs) * contracts_of(p.max_lots, p), 1, p.max_lots, p);
}

FOX_FN void record_for_kelly(EnvState& s, f64 trade_return) {
    const f64 decay = 0.9862327044933592;  // 2^(-1/50)
    const bool won = trade_return > 0.0;
    s.kelly_wins = s.kelly_wins * decay + (won ? 1.0 : 0.0);
    s.kelly_losses = s.kelly_losses * decay + (won ? 0.0 : 1.0);
    s.kelly_gain = s.kelly_gain * decay + (won ? trade_return : 0.0);
    s.kelly_loss = s.kelly_loss * decay - (won ? 0.0 : trade_return);
}

FOX_FN void clear_kelly_record(EnvState& s) { s.kelly_wins = s.kelly_losses = s.kelly_gain = s.kelly_loss = 0.0; }

}  // namespace FOX_NAMESPACE
