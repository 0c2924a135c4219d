// Sums for the performance of every account, added up right after its step from what the step knows.
//
//   mean, squares  of the step returns r (Welford 1962): d = r - mean; mean += d / bars; squares += d (r - mean)
//   growth         product of 1 + r from 1; once 0 or less it stays. Drawdown = growth / its peak - 1, the first peak
//                  is 1
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

FOX_FN EnvMetrics load_metrics(const MetricArrays& a, i64 i) {
    EnvMetrics m;
#define FOX_LOAD(type, name, meaning) m.name = a.name[i];
    FOX_METRIC_FIELDS(FOX_LOAD)
#undef FOX_LOAD
    return m;
}

FOX_FN void store_metrics(const MetricArrays& a, i64 i, const EnvMetrics& m) {
#define FOX_STORE(type, name, meaning) a.name[i] = m.name;
    FOX_METRIC_FIELDS(FOX_STORE)
#undef FOX_STORE
}

FOX_FN void add_return(EnvMetrics& m, f64 r) {
    m.bars += 1;
    const f64 distance = r - m.mean;
    m.mean += distance / (f64)m.bars;
    m.squares += distance * (r - m.mean);
    m.largest = max_of(m.largest, absolute(r));
    m.downside += r < 0.0 ? r * r : 0.0;
    if (m.growth > 0.0) m.growth *= 1.0 + r;
    m.growth_peak = max_of(m.growth_peak, m.growth);
    const f64 below = m.growth / m.growth_peak - 1.0;
    m.drawdown = min_of(m.drawdown, below);
    m.bars_below = below < 0.0 ? m.bars_below + 1 : 0;
    if (m.bars_below > m.drawdown_bars) m.drawdown_bars = m.bars_below;
}

FOX_FN void add_trades(EnvMetrics& m, const StepInfo& info) {
    const TradeSums& ended = info.ended;
    m.trades += info.trade_closed;
    m.wins += ended.wins;
    m.known_r += ended.known_r;
    m.trade_bars += ended.bars;
    m.gains += ended.gains;
    m.losses += ended.losses;
    m.trade_r += ended.r;
    m.trade_return += ended.trade_return;
}

FOX_FN i32 direction_of(const Intent& a) {
    if (a.hold) return DIRECTION_HOLD;
    return a.side == 0 ? DIRECTION_FLAT : (a.side > 0 ? DIRECTION_LONG : DIRECTION_SHORT);
}

// Of a continuous action the nearest magnitude.
FOX_FN i32 magnitude_of(const Intent& a) {
    return a.exposure >= 0.75 ? MAGNITUDE_FULL : (a.exposure >= 0.375 ? MAGNITUDE_HALF : MAGNITUDE_QUARTER);
}

// Add one to the counts of a step. The counts lie in rows of their own, so all are read before the first is written and
// the reads overlap.
FOX_FN void count_order(i64* executed, i64 num_envs, i64 i, const ActedOn& acted_on, const StepInfo& info) {
    const Intent& asked = acted_on.intent;
    const bool filled = info.fill_quantity != 0.0;
    const bool active[] = {(acted_on.branches >> 8 & 255u) != 0, (acted_on.branches >> 16 & 255u) != 0,
                           acted_on.branches >> 24 != 0};
    const i32 rows[] = {
        EXECUTED_STATUS + info.order_status,      info.fill_quantity > 0.0 ? EXECUTED_BUY : EXECUTED_SELL,
        EXECUTED_DIRECTION + direction_of(asked), EXECUTED_MAGNITUDE + magnitude_of(asked),
        EXECUTED_ORDER + asked.order_type,        EXECUTED_URGENCY + asked.urgency};
    const bool counted[] = {true, filled, filled, filled && active[0], filled && active[1], filled && active[2]};
    i64 counts[6];
    for (i32 k = 0; k < 6; ++k) counts[k] = counted[k] ? executed[rows[k] * num_envs + i] : 0;
    for (i32 k = 0; k < 6; ++k) {
        if (counted[k]) executed[rows[k] * num_envs + i] = counts[k] + 1;
    }
}

// The sums of a batch of `num_envs`.
struct Metrics {
    const MetricArrays& arrays;
    i64 num_envs;

    // Add the step that environment i made: what it executed and what came of it, the position and the equity change.
    FOX_FN void add(i64 i, const ActedOn& acted_on, const StepInfo& info, i32 lots, f64 change,
                    const EnvParams& p) const {
        EnvMetrics m = load_metrics(arrays, i);
        add_return(m, info.step_return);
        add_trades(m, info);
        m.exposed += lots != 0;
        m.net += change;
        m.fees += info.fees;
        m.spread += info.spread_cost;
        m.impact += info.impact_cost;
        if (info.fill_quantity != 0.0) {
            const f64 price = absolute(info.fill_price) / p.tick_size;
            m.notional += absolute(info.fill_quantity) * price * p.tick_value;
        }
        count_order(arrays.executed, num_envs, i, acted_on, info);
        store_metrics(arrays, i, m);
    }
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
