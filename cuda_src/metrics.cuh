// Sums for the performance of every account, added up right after its step from what the step knows.
//
//   mean, squares  of the step returns r (Welford 1962): d = r - mean; mean += d / bars; squares += d (r - mean)
//   growth         product of 1 + r from 1; once 0 or less it stays. Drawdown = growth / its peak - 1, the first peak is 1
//   net            sum of equity changes; gross = net + fees + spread + impact
//   executed       what became of the agent's orders: their status, the side of their fills, and for each branch the
//                  choice behind a fill where it shaped the order. Stops, targets and liquidations are none of them
//
// The episodes of an account are joined: its returns follow each other as if one account earned them, and a call that
// only begins an episode is no bar. Every account adds to its own sums in the order of its steps, so neither the batch
// nor the order of execution shows in them.
#pragma once
#include "layout.cuh"
#include "step.cuh"

namespace FOX_NAMESPACE {

static_assert(EXECUTED_BUY > EXECUTED_STATUS + ORDER_STATUS_INVALID, "a row for every OrderStatus");
static_assert(EXECUTED_MAGNITUDE > EXECUTED_DIRECTION + DIRECTION_FLAT, "a row for every Direction");
static_assert(EXECUTED_ORDER > EXECUTED_MAGNITUDE + MAGNITUDE_FULL, "a row for every Magnitude");
static_assert(EXECUTED_URGENCY > EXECUTED_ORDER + ORDER_TYPE_IOC, "a row for every OrderType");
static_assert(EXECUTED_SIZE > EXECUTED_URGENCY + URGENCY_AGGRESSIVE, "a row for every Urgency");

// The step of an environment that keeps no sums.
struct NoMetrics {
    FOX_FN void add(i64, const ActedOn&, const StepInfo&, i32, f64, const EnvParams&) const {}
};

FOX_FN void add_return(const MetricArrays& a, i64 i, f64 r) {
    const i64 bars = a.bars[i] + 1;
    a.bars[i] = bars;
    const f64 distance = r - a.mean[i];
    const f64 mean = a.mean[i] + distance / (f64)bars;
    a.mean[i] = mean;
    a.squares[i] += distance * (r - mean);
    a.largest[i] = max_of(a.largest[i], absolute(r));
    a.downside[i] += r < 0.0 ? r * r : 0.0;
    if (a.growth[i] > 0.0) a.growth[i] *= 1.0 + r;
    a.growth_peak[i] = max_of(a.growth_peak[i], a.growth[i]);
    const f64 below = a.growth[i] / a.growth_peak[i] - 1.0;
    a.drawdown[i] = min_of(a.drawdown[i], below);
    a.bars_below[i] = below < 0.0 ? a.bars_below[i] + 1 : 0;
    if (a.bars_below[i] > a.drawdown_bars[i]) a.drawdown_bars[i] = a.bars_below[i];
}

FOX_FN void add_trades(const MetricArrays& a, i64 i, const StepInfo& info) {
    if (info.trade_closed == 0) return;
    const TradeSums& ended = info.ended;
    a.trades[i] += info.trade_closed;
    a.wins[i] += ended.wins;
    a.known_r[i] += ended.known_r;
    a.trade_bars[i] += ended.bars;
    a.gains[i] += ended.gains;
    a.losses[i] += ended.losses;
    a.trade_r[i] += ended.r;
    a.trade_return[i] += ended.trade_return;
}

FOX_FN i32 direction_of(const Intent& a) {
    if (a.hold) return DIRECTION_HOLD;
    return a.side == 0 ? DIRECTION_FLAT : (a.side > 0 ? DIRECTION_LONG : DIRECTION_SHORT);
}

// Of a continuous action the nearest magnitude.
FOX_FN i32 magnitude_of(const Intent& a) {
    return a.exposure >= 0.75 ? MAGNITUDE_FULL : (a.exposure >= 0.375 ? MAGNITUDE_HALF : MAGNITUDE_QUARTER);
}

// The sums of a batch of `num_envs`.
struct Metrics {
    const MetricArrays& arrays;
    i64 num_envs;

    // Add the step that environment i made: what it executed and what came of it, the position and the equity change.
    FOX_FN void add(i64 i, const ActedOn& executed, const StepInfo& info, i32 lots, f64 change,
                    const EnvParams& p) const {
        add_return(arrays, i, info.step_return);
        add_trades(arrays, i, info);
        arrays.exposed[i] += lots != 0;
        arrays.net[i] += change;
        arrays.fees[i] += info.fees;
        arrays.spread[i] += info.spread_cost;
        arrays.impact[i] += info.impact_cost;
        count(EXECUTED_STATUS + info.order_status, i);
        if (info.fill_quantity != 0.0) add_fill(i, executed, info, p);
    }

    FOX_FN void add_fill(i64 i, const ActedOn& executed, const StepInfo& info, const EnvParams& p) const {
        const Intent& asked = executed.intent;
        const f64 price = absolute(info.fill_price) / p.tick_size;
        arrays.notional[i] += absolute(info.fill_quantity) * price * p.tick_value;
        count(info.fill_quantity > 0.0 ? EXECUTED_BUY : EXECUTED_SELL, i);
        count(EXECUTED_DIRECTION + direction_of(asked), i);
        if (executed.branches >> 8 & 255u) count(EXECUTED_MAGNITUDE + magnitude_of(asked), i);
        if (executed.branches >> 16 & 255u) count(EXECUTED_ORDER + asked.order_type, i);
        if (executed.branches >> 24) count(EXECUTED_URGENCY + asked.urgency, i);
    }

    FOX_FN void count(i32 which, i64 i) const { arrays.executed[which * num_envs + i] += 1; }
};

// Begin the sums of environment i anew where the mask says so.
FOX_FN void clear_metrics(const MetricArrays& a, i64 num_envs, const u8* mask, i64 i) {
    if (mask && !mask[i]) return;
#define FOX_CLEAR(type, name, meaning) a.name[i] = 0;
    FOX_METRIC_FIELDS(FOX_CLEAR)
#undef FOX_CLEAR
    a.growth[i] = a.growth_peak[i] = 1.0;
    for (i32 k = 0; k < EXECUTED_SIZE; ++k) a.executed[k * num_envs + i] = 0;
}

}  // namespace FOX_NAMESPACE
