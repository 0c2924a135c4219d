// How an episode begins and ends.
//
//   start       forced, or uniform over start_count bars from first_start
//   terminated  equity <= max(floor * initial cash, 0), also after the costs of a sale at the end; the position is
//               closed at the close at market cost
//   truncated   the horizon is reached or the data end; terminated wins when both fall on one bar
#pragma once
#include "layout.cuh"
#include "ledger.cuh"
#include "rng.cuh"

namespace FOX_NAMESPACE {

// Begin the episode numbered s.episode; `forced_start` < 0 leaves the start to the draw.
FOX_FN void begin_episode(EnvState& s, i64 forced_start, const EnvParams& p) {
    const Philox start = philox(s.key, s.stream, (u32)s.episode, 0, DRAW_START);
    const f64 u = uniform(philox(s.key, s.stream, (u32)s.episode, 0, DRAW_COST));
    s.bar = forced_start >= 0 ? (i32)forced_start : p.first_start + (i32)uniform_below(start, (u32)p.start_count);
    s.start_bar = s.bar;
    s.cash = s.peak_equity = p.initial_cash;
    s.cost_draw = p.saboteur_low + u * (p.saboteur_high - p.saboteur_low);
    s.entry = s.costs_paid = s.last_r = 0.0;
    s.trade_equity = s.trade_net = s.trade_risk = s.trade_costs = s.trade_mae = s.trade_mfe = 0.0;
    s.stop = s.stop_distance = s.target = 0.0;
    s.pending_exposure = s.pending_conviction = s.pending_close = s.flat_price = 0.0;
    s.pending = 0;
    s.lots_today = s.lots = s.trade_max_lots = s.bars_in_trade = s.trade_count = s.win_count = 0;
    s.done = 0;
}

struct EpisodeEnd {
    bool terminated;
    bool truncated;
};

template <u32 RULES>
FOX_FN EpisodeEnd end_of_episode(EnvState& s, StepInfo& info, const MarketRow& bar, i64 bars, const Costs& c,
                                 const Booking<RULES>& b) {
    const EnvParams& p = b.params;
    const bool ruined = equity_at(s, bar.close, p) <= p.floor_equity;
    const bool over = (i64)s.bar + 1 >= bars || (p.horizon > 0 && s.bar - s.start_bar >= p.horizon);
    if (s.lots != 0 && (ruined || (over && p.close_at_end))) {
        book_liquidation(s, info, bar.close, ruined ? EXIT_REASON_FLOOR : EXIT_REASON_EPISODE_END, c, b);
    }
    const bool ended_ruined = ruined || equity_at(s, bar.close, p) <= p.floor_equity;
    return {ended_ruined, over && !ended_ruined};
}

}  // namespace FOX_NAMESPACE
