// Exits that the agent does not ask for: trailing stops, profit targets and the session's end, and the sequence inside
// a bar where they meet the agent's order.
//
//   entry      latches k ATR_t (stop) and j ATR_t (target) at the first fill of a trade; scale-ins keep both levels
//   stop       long: fill - k ATR, floored to the grid, ratcheted at each close to max(level, C - k ATR); shorts
//              mirrored. Touched, it fills at min(level, O) less h + impact of the whole position
//   target     long: fill + j ATR, ceiled to the grid; traded through it fills at its price with the maker's fee,
//              touched exactly with probability queue_prob
//
//   1. what is marketable at O   2. the stop   3. the target and the resting order, the nearer one first
//
// The path inside a bar is unknown, so the stop comes before a resting exit, the target before an order that adds. An
// order that adds between the open and the stop is passed on the way to it: it is filled first and stopped out with the
// rest. What a stop or a target closed is not opened again in the same bar: the rest of the agent's order is cancelled.
// After a resting entry the stop is live in that bar, the target is not. A bar without volume, or locked on the side of
// the exit, trades neither.
#pragma once
#include "account.cuh"
#include "costs.cuh"
#include "fills.cuh"
#include "layout.cuh"
#include "ledger.cuh"
#include "rng.cuh"

namespace FOX_NAMESPACE {

FOX_FN f64 protective_level(i32 side, f64 price, f64 distance) {
    return side > 0 ? floor_of(price - distance) : ceil_of(price + distance);
}

template <u32 RULES>
FOX_FN void set_exits(EnvState& s, f64 fill_price, const Booking<RULES>& b) {
    const i32 side = sign_of(s.lots);
    const f64 reach = b.params.target_atr * b.atr;
    s.stop_distance = stop_multiple(side, b.knobs) * b.atr;
    s.stop = protective_level(side, fill_price, s.stop_distance);
    s.target = side > 0 ? ceil_of(fill_price + reach) : floor_of(fill_price - reach);
}

// Book the agent's fill; whether a trade began with it.
template <u32 RULES>
FOX_FN bool book_agent_fill(EnvState& s, StepInfo& info, const Fill& f, const Booking<RULES>& b) {
    const i32 side_before = sign_of(s.lots);
    book_fill(s, info, f, EXIT_REASON_AGENT, b);
    const bool began = s.lots != 0 && sign_of(s.lots) != side_before;
    if (began) set_exits(s, f.price, b);
    return began;
}

FOX_FN bool stop_touched(const EnvState& s, const MarketRow& bar, const EnvParams& p) {
    if (s.stop_distance <= 0.0 || !can_close(s, bar, p)) return false;
    return s.lots > 0 ? bar.low <= s.stop : bar.high >= s.stop;
}

template <u32 RULES>
FOX_FN void book_stop(EnvState& s, StepInfo& info, const MarketRow& bar, const Costs& c, const Booking<RULES>& b) {
    const f64 reference = s.lots > 0 ? min_of(s.stop, bar.open) : max_of(s.stop, bar.open);
    book_liquidation(s, info, reference, EXIT_REASON_STOP, c, b);
}

FOX_FN bool target_filled(const EnvState& s, const MarketRow& bar, const EnvParams& p) {
    if (p.target_atr <= 0.0 || !can_close(s, bar, p)) return false;
    const f64 beyond = s.lots > 0 ? bar.high - s.target : s.target - bar.low;
    if (beyond != 0.0) return beyond > 0.0;
    const Philox draw = philox(s.key, s.stream, (u32)s.episode, (u32)(s.bar - s.start_bar), DRAW_TARGET);
    return uniform(draw) < p.queue_prob;
}

template <u32 RULES>
FOX_FN void book_target(EnvState& s, StepInfo& info, const Booking<RULES>& b) {
    book_fill(s, info, {-s.lots, s.target, s.target, 0.0, true}, EXIT_REASON_TARGET, b);
}

// Whether a resting fill takes the position's profit before its target would.
FOX_FN bool exits_before_target(const Fill& resting, const EnvState& s) {
    const i32 side = sign_of(s.lots);
    return sign_of(resting.lots) == -side && (f64)side * (s.target - resting.price) >= 0.0;
}

// Whether a resting fill adds to the position at a price that lies before the stop.
FOX_FN bool adds_before_stop(const Fill& resting, const EnvState& s) {
    const i32 side = sign_of(s.lots);
    return sign_of(resting.lots) == side && (f64)side * (resting.price - s.stop) >= 0.0;
}

struct BarTrades {
    Fill agent;            // what became of the agent's order
    bool entered_resting;  // the open trade began inside the bar
};

template <u32 RULES>
FOX_FN BarTrades trade_bar(EnvState& s, StepInfo& info, const Fill& fill, const MarketRow& bar, const Costs& c,
                           const Booking<RULES>& b) {
    const Fill cancelled = fill.maker ? no_fill() : fill;
    if (!fill.maker) book_agent_fill(s, info, fill, b);
    if (stop_touched(s, bar, b.params)) {
        const bool added = fill.maker && adds_before_stop(fill, s);
        if (added) book_agent_fill(s, info, fill, b);
        book_stop(s, info, bar, c, b);
        return {added ? fill : cancelled, false};
    }
    const bool at_target = target_filled(s, bar, b.params);
    if (at_target && !(fill.maker && exits_before_target(fill, s))) {
        book_target(s, info, b);
        return {cancelled, false};
    }
    if (!fill.maker) return {fill, false};
    const bool began = book_agent_fill(s, info, fill, b);
    if (began && stop_touched(s, bar, b.params)) {
        book_stop(s, info, bar, c, b);
    } else if (!began && at_target && s.lots != 0) {
        book_target(s, info, b);
    }
    return {fill, began};
}

// At the close the stop follows the price, never back.
FOX_FN void ratchet_stop(EnvState& s, f64 close) {
    if (s.lots == 0) return;
    const f64 level = protective_level(sign_of(s.lots), close, s.stop_distance);
    s.stop = s.lots > 0 ? max_of(s.stop, level) : min_of(s.stop, level);
}

// Nothing is held over a session's end: the position is closed at the close of its last bar, or where that cannot be
// traded in of the next bar that can.
template <u32 RULES>
FOX_FN void leave_session(EnvState& s, StepInfo& info, const MarketRow& bar, const MarketRow* rows, const Costs& c,
                          const Booking<RULES>& b) {
    if (!can_close(s, bar, b.params)) return;
    if ((bar.flags & BAR_FLAG_SESSION_END) || duty_waits(s, BAR_FLAG_SESSION_END, rows, b.params)) {
        book_liquidation(s, info, bar.close, EXIT_REASON_SESSION, c, b);
    }
}

}  // namespace FOX_NAMESPACE
