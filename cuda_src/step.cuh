// The step: one decision at the close of bar t, executed in bar t+1 and marked at its close.
//
// Pure: (state, action, market, parameters, knobs) -> (state', outcome). Training, validation and every backend call
// this function and nothing else. WITH_INFO = false leaves out what only the info arrays would show, EXITS = false the
// exits that the agent does not ask for, where an environment has none.
#pragma once
#include "account.cuh"
#include "costs.cuh"
#include "episode.cuh"
#include "exits.cuh"
#include "fills.cuh"
#include "layout.cuh"
#include "ledger.cuh"
#include "margin.cuh"
#include "masks.cuh"
#include "reward.cuh"
#include "roll.cuh"
#include "target.cuh"

namespace FOX_NAMESPACE {

struct Outcome {
    f32 reward;
    EpisodeEnd end;
    StepInfo info;
};

// Fill in what can be read off the account at the close of the state's bar.
FOX_FN void mark_account(StepInfo& info, const EnvState& s, const MarketRow& bar, const EnvParams& p) {
    info.equity = equity_at(s, bar.close, p);
    info.cash = s.cash;
    info.position = contracts_of(s.lots, p);
    info.entry_price = s.entry * p.tick_size;
    info.unrealized = unrealised(s, bar.close, p);
    info.bar_index = s.bar;
}

FOX_FN StepInfo quiet_info(const EnvState& s, const MarketRow& bar, const EnvParams& p) {
    StepInfo info = {};
    info.fill_price = nan_price();
    mark_account(info, s, bar, p);
    return info;
}

template <bool WITH_INFO, bool EXITS>
FOX_FN Outcome env_step(EnvState& s, const Intent& action, f64 conviction, const TradedMarket& market,
                        const Batch& batch, i64 env) {
    const EnvParams& p = market.params;
    MarketRow decision = market.rows[s.bar];
    const MarketRow bar = market.rows[s.bar + 1];
    const f64 equity = equity_at(s, decision.close, p);
    const Costs costs = costs_in_force(s, decision, p, batch.knobs);
    TradeRecord* ledger = batch.ledger ? batch.ledger + env * batch.ledger_capacity : nullptr;
    const Booking booking = {p, equity, decision.atr, s.bar + 1, ledger, batch.ledger_capacity};
    Outcome out = {};

    if (bar.flags & BAR_FLAG_ROLL) roll_position(s, out.info, decision, market.roll_gaps[s.bar + 1], costs, p);

    const i32 cap = margin_cap(equity, p);
    const Order order = order_for(action, conviction, s, cap, p);
    Fill fill = fill_order(order, s, decision, bar, costs, p);
    if (WITH_INFO) out.info.branch_active = active_branches(action, order, s, cap, conviction, p);

    const i32 side_before = sign_of(s.lots);
    bool entered_resting;
    if (s.lots != 0) s.bars_in_trade += 1;
    if (EXITS) {
        const BarTrades trades = trade_bar(s, out.info, fill, bar, costs, booking);
        fill = trades.agent;
        entered_resting = trades.entered_resting;
    } else {
        book_fill(s, out.info, fill, EXIT_REASON_AGENT, booking);
        entered_resting = fill.maker && sign_of(s.lots) != side_before;
    }
    out.info.order_status = (i8)status_of(order, fill);
    out.info.fill_quantity = contracts_of(fill.lots, p);
    out.info.fill_price = fill.lots != 0 ? fill.price * p.tick_size : nan_price();
    if (s.lots != 0) track_excursions(s, bar, entered_resting, p);
    if (EXITS && p.intrabar_margin) enforce_maintenance(s, out.info, adverse_extreme(s, bar), costs, booking);
    enforce_maintenance(s, out.info, bar.close, costs, booking);
    if (EXITS) ratchet_stop(s, bar.close);
    if (EXITS && p.flat_at_session_end) leave_session(s, out.info, bar, costs, booking);

    s.bar += 1;
    out.end = end_of_episode(s, out.info, bar, market.bars, costs, booking);
    s.costs_paid += out.info.cost;
    mark_account(out.info, s, bar, p);
    s.peak_equity = max_of(s.peak_equity, out.info.equity);
    out.info.step_return = (out.info.equity - equity) / equity;
    out.reward = reward_of(equity, out.info.equity, p);
    s.done = (u8)(out.end.terminated || out.end.truncated);
    return out;
}

}  // namespace FOX_NAMESPACE
