// The step: one decision at the close of bar t, executed in bar t+1 and marked at its close.
//
// Pure: (state, action, market, parameters, knobs) -> (state', outcome). Training, validation and every backend call
// this function and nothing else. WITH_INFO = false leaves out what only the info arrays would show, RULES the groups
// of rules that no account of the batch uses.
#pragma once
#include "account.cuh"
#include "costs.cuh"
#include "episode.cuh"
#include "exits.cuh"
#include "fills.cuh"
#include "latency.cuh"
#include "layout.cuh"
#include "ledger.cuh"
#include "margin.cuh"
#include "masks.cuh"
#include "reward.cuh"
#include "roll.cuh"
#include "target.cuh"

namespace FOX_NAMESPACE {

// The intent that the step executed, which with latency is an earlier one, and the branches that shaped its order.
struct ActedOn {
    Intent intent;
    u32 branches;
};

struct Outcome {
    f32 reward;
    EpisodeEnd end;
    StepInfo info;
    ActedOn acted_on;
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

// With latency an action acts on the account that this step leaves: the branches that will shape its order there.
template <u32 RULES>
FOX_FN u32 branches_of_pending(const EnvState& s, const Outcome& out, const EnvParams& p, const f64* knobs) {
    const Intent pending = pending_intent(s);
    if (out.end.terminated || out.end.truncated) return active_branches(hold_intent(false), {}, s, {}, 1.0, p);
    const Cap cap = position_cap<RULES>(s, out.info.equity, p, knobs);
    return active_branches(pending, order_for(pending, s.pending_conviction, s, cap, p), s, cap, s.pending_conviction,
                           p);
}

// What a step needs besides the account: the market, the knobs and the account's ring of trades (or null).
struct World {
    const TradedMarket& market;
    const f64* knobs;
    TradeRecord* ledger;
    i64 ledger_capacity;
};

template <bool WITH_INFO, u32 RULES>
FOX_FN Outcome env_step(EnvState& s, const Intent& action, f64 conviction, const World& world) {
    const EnvParams& p = world.market.params;
    const f64* knobs = world.knobs;
    const MarketRow* rows = world.market.rows;
    MarketRow decision = rows[s.bar];
    const MarketRow bar = rows[s.bar + 1];
    const f64 equity = equity_at(s, decision.close, p), unrealised_before = unrealised(s, decision.close, p);
    const Costs costs = costs_in_force(s, decision, p, knobs);
    const Booking<RULES> booking = {p, knobs, equity, decision.atr, s.bar + 1, world.ledger, world.ledger_capacity};
    Outcome out = {};

    if ((RULES & RULES_TRADE_REWARD) && s.bar == s.start_bar) s.flat_price = decision.close;
    if (bar.flags & BAR_FLAG_ROLL) {
        roll_position<RULES>(s, out.info, decision, world.market.roll_gaps[s.bar + 1], costs, p);
    }

    const bool late = (RULES & RULES_LATENCY) && p.latency;
    const Intent acting = late ? pending_intent(s) : action;
    const f64 acting_conviction = late ? s.pending_conviction : conviction;
    const f64 decided_at = late ? s.pending_close : decision.close;
    const bool gap = (bar.flags & BAR_FLAG_GAP) || (late && (decision.flags & BAR_FLAG_GAP));
    if (late) send_intent(s, action, conviction, decision.close);

    const Cap cap = position_cap<RULES>(s, equity, p, knobs);
    const Order order = order_for(acting, acting_conviction, s, cap, p);
    Fill fill = fill_order(order, s, decided_at, gap, bar, costs, p);
    if (WITH_INFO) out.acted_on = {acting, active_branches(acting, order, s, cap, acting_conviction, p)};

    const i32 side_before = sign_of(s.lots);
    const bool carried = s.lots != 0 && order.lots == 0;
    bool entered_resting;
    if (s.lots != 0) s.bars_in_trade += 1;
    if (RULES & RULES_EXITS) {
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
    if (s.lots != 0) track_excursions(s, bar, fill, entered_resting, p);
    if ((RULES & RULES_EXITS) && p.intrabar_margin) {
        enforce_maintenance(s, out.info, p.maintenance_margin, adverse_extreme(s, bar), bar, costs, booking);
    }
    enforce_maintenance(s, out.info, maintenance_at_close<RULES>(s, bar, rows, p), bar.close, bar, costs, booking);
    if (RULES & RULES_EXITS) {
        ratchet_stop(s, bar.close);
        if (p.flat_at_session_end) leave_session(s, out.info, bar, rows, costs, booking);
    }

    s.bar += 1;
    out.end = end_of_episode(s, out.info, bar, world.market.bars, costs, booking);
    s.costs_paid += out.info.cost;
    mark_account(out.info, s, bar, p);
    s.peak_equity = max_of(s.peak_equity, out.info.equity);
    out.info.step_return = (out.info.equity - equity) / equity;
    if ((RULES & RULES_TRADE_REWARD) && p.reward_mode == REWARD_MODE_TRADE) {
        out.reward = trade_reward(out.info, s, bar.close, unrealised_before, carried, out.end.terminated, p, knobs);
    } else {
        out.reward = account_reward(equity, out.info.equity, p);
    }
    if ((RULES & RULES_CLOSE_TODAY) && (bar.flags & BAR_FLAG_DAY_END)) s.lots_today = 0;
    if (WITH_INFO) out.info.branch_active = late ? branches_of_pending<RULES>(s, out, p, knobs) : out.acted_on.branches;
    s.done = (u8)(out.end.terminated || out.end.truncated);
    return out;
}

}  // namespace FOX_NAMESPACE
