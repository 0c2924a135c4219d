// A roll: between the decision bar and the execution bar the series goes over to the next contract, whose price lies
// roll_gap ticks above the old one's. The position goes over too, before anything else happens in the bar.
//
//   entry, stop, target, decision close and what else is remembered of prices shift by roll_gap, so that the gap is
//   nobody's P&L and no order's advantage
//   two sides of |position| are paid, the old contract sold and the new one bought at the decision close:
//   2 (h + impact(|position|)) and the taker's fees at both prices
#pragma once
#include "account.cuh"
#include "costs.cuh"
#include "layout.cuh"
#include "ledger.cuh"

namespace FOX_NAMESPACE {

template <u32 RULES>
FOX_FN void roll_position(EnvState& s, StepInfo& info, MarketRow& decision, f64 gap, const Costs& c,
                          const EnvParams& p) {
    const f64 old_price = decision.close;
    decision.close += gap;
    s.pending_close += gap;
    s.flat_price += gap;
    if (s.lots == 0) return;
    s.entry += gap;
    // A gap off the tick grid leaves the levels on it, on the side that they are set to at an entry.
    s.stop = s.lots > 0 ? floor_of(s.stop + gap) : ceil_of(s.stop + gap);
    s.target = s.lots > 0 ? ceil_of(s.target + gap) : floor_of(s.target + gap);
    const i32 lots = absolute(s.lots);
    const f64 contracts = contracts_of(lots, p);
    const f64 sold = closing_fees<RULES>(s, lots, old_price, fee_per_contract(old_price, false, p), p);
    const f64 fees = sold + contracts * fee_per_contract(decision.close, false, p);
    if ((RULES & RULES_CLOSE_TODAY) && p.close_today) s.lots_today = lots;
    const f64 spread = 2.0 * contracts * c.half_spread * p.tick_value;
    const f64 slippage = 2.0 * contracts * impact(c, contracts) * p.tick_value;
    const f64 cost = fees + spread + slippage;
    s.cash -= cost;
    s.trade_net -= cost;
    s.trade_costs += cost;
    info.fees += fees;
    info.spread_cost += spread;
    info.impact_cost += slippage;
    info.cost += cost;
}

}  // namespace FOX_NAMESPACE
