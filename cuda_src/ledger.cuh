// Booking a fill: realised P&L, average entry, fees, and trades as position cycles.
//
//   closing n  realises n (price - e) sgn(p) * tick value; adding averages e over contracts
//   a trade    begins when the position leaves zero and ends when it returns to zero or changes sign;
//              size changes inside it are none. Return = net P&L / equity at its start;
//              R = net P&L / sum over opening fills of k * ATR_t * n * tick value
//   a flip     is one order booked as a closing and an opening part at one price
//   today      where the contract has a fee of its own for closing what the same trading day opened, lots of earlier
//              days are closed first
#pragma once
#include "account.cuh"
#include "costs.cuh"
#include "fills.cuh"
#include "kelly.cuh"
#include "layout.cuh"
#include "reward.cuh"

namespace FOX_NAMESPACE {

// What every booking of one step shares.
template <u32 RULES>
struct Booking {
    const EnvParams& params;
    const f64* knobs;
    f64 equity;           // money at the decision close: the start of a trade that opens now
    f64 atr;              // ticks, of the decision bar
    i32 bar;              // index of the execution bar
    TradeRecord* ledger;  // this environment's ring, or null
    i64 capacity;
};

// Add a finished trade to the sums of its step; r of a trade without risk is no number.
FOX_FN void add_trade(TradeSums& t, f64 pnl, f64 trade_return, f64 r, i32 bars) {
    const bool known = r - r == 0.0;
    t.wins += pnl > 0.0;
    t.known_r += known;
    t.bars += bars;
    t.gains += pnl > 0.0 ? pnl : 0.0;
    t.losses += pnl < 0.0 ? -pnl : 0.0;
    t.r += known ? r : 0.0;
    t.trade_return += trade_return;
}

template <u32 RULES>
FOX_FN void end_trade(EnvState& s, StepInfo& info, f64 price, i32 reason, const Booking<RULES>& b) {
    const f64 pnl = s.trade_net;
    const f64 trade_return = pnl / s.trade_equity;
    const f64 r = pnl / s.trade_risk;
    if (b.ledger) {
        TradeRecord& t = b.ledger[(i64)((u32)s.ledger_count % (u32)b.capacity)];
        t = {contracts_of(s.trade_max_lots, b.params),
             s.entry,
             price,
             pnl,
             trade_return,
             r,
             min_of(s.trade_mae, pnl),
             max_of(s.trade_mfe, pnl),
             s.trade_costs,
             s.episode,
             b.bar - s.bars_in_trade,
             b.bar,
             (i8)sign_of(s.lots),
             (i8)reason,
             0};
    }
    add_trade(info.ended, pnl, trade_return, r, s.bars_in_trade);
    info.trade_closed = (i8)(info.trade_closed + 1);
    info.trade_return = trade_return;
    info.trade_r = r;
    info.trade_bars = (f64)s.bars_in_trade;
    info.exit_reason = (i8)reason;
    if (RULES & RULES_KELLY) record_for_kelly(s, trade_return);
    if (RULES & RULES_TRADE_REWARD) {
        info.trade_reward += trade_term(pnl, s.bars_in_trade, reason, b.params, b.knobs);
    }
    s.last_r = r;
    s.trade_count += 1;
    s.win_count += pnl > 0.0;
    s.ledger_count += 1;
    s.entry = 0.0;
}

template <u32 RULES>
FOX_FN void begin_trade(EnvState& s, StepInfo& info, i32 side, f64 price, const Booking<RULES>& b) {
    if (RULES & RULES_TRADE_REWARD) info.missed += missed_move(side, price, s.flat_price, b.params);
    if (RULES & RULES_CLOSE_TODAY) s.lots_today = 0;
    s.trade_equity = b.equity;
    s.trade_net = s.trade_risk = s.trade_costs = s.trade_mae = s.trade_mfe = 0.0;
    s.trade_max_lots = 0;
    s.bars_in_trade = 0;
}

// Fees of closing `n` > 0 lots of the open position at a price, where `fee_each` is the ordinary fee of a contract.
template <u32 RULES>
FOX_FN f64 closing_fees(const EnvState& s, i32 n, f64 price, f64 fee_each, const EnvParams& p) {
    if (!(RULES & RULES_CLOSE_TODAY) || !p.close_today) return contracts_of(n, p) * fee_each;
    const i32 today = max_of(n - (absolute(s.lots) - s.lots_today), 0);
    const f64 today_each = p.today_fee + p.today_fee_rate * absolute(price) * p.tick_value;
    return contracts_of(n - today, p) * fee_each + contracts_of(today, p) * today_each;
}

// Realise `n` > 0 lots of the open position; the position keeps its average entry.
template <u32 RULES>
FOX_FN void book_closing(EnvState& s, StepInfo& info, i32 n, const Fill& f, i32 reason, f64 fees, f64 slippage_each,
                         const Booking<RULES>& b) {
    const f64 contracts = contracts_of(n, b.params);
    const f64 realised = contracts * (f.price - s.entry) * (f64)sign_of(s.lots) * b.params.tick_value;
    s.cash += realised - fees;
    s.trade_net += realised - fees;
    s.trade_costs += fees + contracts * slippage_each;
    if (RULES & RULES_CLOSE_TODAY) s.lots_today = min_of(s.lots_today, absolute(s.lots) - n);
    if (n == absolute(s.lots)) {
        end_trade(s, info, f.price, reason, b);
        if (RULES & RULES_TRADE_REWARD) s.flat_price = f.reference;
        s.lots = 0;
    } else {
        s.lots -= sign_of(s.lots) * n;
    }
}

// Add `n` > 0 lots on `side` to a flat position or to one of the same side.
template <u32 RULES>
FOX_FN void book_opening(EnvState& s, StepInfo& info, i32 side, i32 n, const Fill& f, f64 fees, f64 slippage_each,
                         const Booking<RULES>& b) {
    if (s.lots == 0) begin_trade(s, info, side, f.reference, b);
    const f64 held = contracts_of(absolute(s.lots), b.params), added = contracts_of(n, b.params);
    s.entry = (held * s.entry + added * f.price) / (held + added);
    s.lots += side * n;
    if ((RULES & RULES_CLOSE_TODAY) && b.params.close_today) s.lots_today += n;
    s.cash -= fees;
    s.trade_net -= fees;
    s.trade_costs += fees + added * slippage_each;
    s.trade_risk += risk_multiple(side, b.params, b.knobs) * b.atr * added * b.params.tick_value;
    s.trade_max_lots = max_of(s.trade_max_lots, absolute(s.lots));
}

template <u32 RULES>
FOX_FN void book_fill(EnvState& s, StepInfo& info, const Fill& f, i32 reason, const Booking<RULES>& b) {
    if (f.lots == 0) return;
    const i32 side = sign_of(f.lots);
    const i32 closing = side * sign_of(s.lots) < 0 ? min_of(absolute(f.lots), absolute(s.lots)) : 0;
    const i32 opening = absolute(f.lots) - closing;
    const f64 fee_each = fee_per_contract(f.price, f.maker, b.params);
    const f64 slippage_each = (f.price - f.reference) * (f64)side * b.params.tick_value;
    const f64 spread_each = f.spread * b.params.tick_value;
    const f64 contracts = contracts_of(absolute(f.lots), b.params);
    const f64 closing_fee = closing > 0 ? closing_fees<RULES>(s, closing, f.price, fee_each, b.params) : 0.0;
    const f64 opening_fee = contracts_of(opening, b.params) * fee_each;
    info.fees += closing_fee + opening_fee;
    info.cost += closing_fee + opening_fee + contracts * slippage_each;
    info.spread_cost += contracts * spread_each;
    info.impact_cost += contracts * (slippage_each - spread_each);
    if (closing > 0) book_closing(s, info, closing, f, reason, closing_fee, slippage_each, b);
    if (opening > 0) book_opening(s, info, side, opening, f, opening_fee, slippage_each, b);
}

// Sell or cover the whole position at a reference price, paying the taker's costs: liquidations and episode ends.
template <u32 RULES>
FOX_FN void book_liquidation(EnvState& s, StepInfo& info, f64 reference, i32 reason, const Costs& c,
                             const Booking<RULES>& b) {
    const f64 slippage = taker_slippage(c, contracts_of(absolute(s.lots), b.params));
    const Fill f = {-s.lots, reference - (f64)sign_of(s.lots) * slippage, reference, c.half_spread, false};
    book_fill(s, info, f, reason, b);
}

// Worst and best P&L of the open trade at the extremes of a bar that it was open in. A trade that a resting order
// began in this bar is compared with the close only: the extreme may lie before it. One that a resting order resized
// may have met an extreme with either size; the worse counts, without what the fill would have gained there.
FOX_FN void track_excursions(EnvState& s, const MarketRow& bar, const Fill& fill, bool entered_resting,
                             const EnvParams& p) {
    const f64 adverse = entered_resting ? bar.close : (s.lots > 0 ? bar.low : bar.high);
    const f64 favourable = entered_resting ? bar.close : (s.lots > 0 ? bar.high : bar.low);
    const f64 resized = fill.maker && !entered_resting ? contracts_of(fill.lots, p) * p.tick_value : 0.0;
    const f64 worst = unrealised(s, adverse, p) - max_of(resized * (adverse - fill.price), 0.0);
    const f64 best = unrealised(s, favourable, p) - max_of(resized * (favourable - fill.price), 0.0);
    s.trade_mae = min_of(s.trade_mae, s.trade_net + worst);
    s.trade_mfe = max_of(s.trade_mfe, s.trade_net + best);
}

}  // namespace FOX_NAMESPACE
