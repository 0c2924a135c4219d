// What an order gets inside the execution bar t+1: size, price and whether it paid the taker's or the maker's costs.
//
//   size n   = min(|q|, max(1 lot, floor(share))); a bar without volume fills nothing
//   market   at O, price O + sgn(q) (h + impact(n)), share = rho[urgency] V
//   IOC      as market with half the share, only if O is at most tolerance[urgency] ticks beyond C_t
//   limit    at C_t - sgn(q) offset[urgency], rounded to the grid away from the market. Marketable at O including
//            its costs: a taker fill. Otherwise it rests: traded through -> filled at the limit; touched exactly ->
//            filled with probability queue_prob; no spread, no impact, maker fee, buys share
//            rho V clamp((limit - L + 1) / (H - L + 1), 0, 1), sells mirrored
//
// Limit and IOC orders do not survive a session gap unless they are good till cancelled. Data without volume have no
// participation limit. A bar locked at a price limit sells nothing at the upper one and buys nothing at the lower one;
// a bar that only opens there has nobody to take from at its open.
#pragma once
#include "account.cuh"
#include "costs.cuh"
#include "layout.cuh"
#include "rng.cuh"
#include "target.cuh"

namespace FOX_NAMESPACE {

struct Fill {
    i32 lots;       // signed, 0 if nothing was filled
    f64 price;      // ticks
    f64 reference;  // ticks: the price that cost is measured against
    f64 spread;     // ticks: the half-spread inside the price; the rest of price - reference is impact
    bool maker;
};

FOX_FN Fill no_fill() { return {0, 0.0, 0.0, 0.0, false}; }

// Whether an order of this side can trade in the bar at all.
FOX_FN bool can_trade(i32 side, const MarketRow& bar, const EnvParams& p) {
    if (p.has_volume && bar.volume <= 0.0) return false;
    return !(bar.flags & (side > 0 ? BAR_FLAG_LOCKED_UP : BAR_FLAG_LOCKED_DOWN));
}

// Whether the open position can be closed in the bar.
FOX_FN bool can_close(const EnvState& s, const MarketRow& bar, const EnvParams& p) {
    return s.lots != 0 && can_trade(-sign_of(s.lots), bar, p);
}

// Whether a duty to close the position, met at a bar with this flag, still waits: that bar and those since traded
// nothing that could close it. Called inside the bar after s.bar, once its fills are booked.
FOX_FN bool duty_waits(const EnvState& s, u32 flag, const MarketRow* rows, const EnvParams& p) {
    for (i32 bar = s.bar; bar > s.bar - s.bars_in_trade; --bar) {
        if (can_close(s, rows[bar], p)) return false;
        if (rows[bar].flags & flag) return true;
    }
    return false;
}

// Lots that a share of the bar's volume allows, for an order of `wanted` > 0 lots.
FOX_FN i32 lots_within_share(i32 side, i32 wanted, f64 share, const MarketRow& bar, const EnvParams& p) {
    if (!can_trade(side, bar, p)) return 0;
    return p.has_volume ? whole_lots(share, 1, wanted, p) : wanted;
}

FOX_FN Fill taker_fill(i32 lots, f64 share, const MarketRow& bar, const Costs& c, const EnvParams& p) {
    const i32 side = sign_of(lots);
    const i32 n = lots_within_share(side, absolute(lots), share, bar, p);
    if (n == 0 || (bar.flags & (side > 0 ? BAR_FLAG_OPEN_UP : BAR_FLAG_OPEN_DOWN))) return no_fill();
    return {side * n, bar.open + (f64)side * taker_slippage(c, contracts_of(n, p)), bar.open, c.half_spread, false};
}

FOX_FN Fill resting_fill(i32 lots, f64 limit, f64 share, const MarketRow& bar, f64 queue_draw, const EnvParams& p) {
    const i32 side = sign_of(lots);
    // Ticks by which the bar went beyond the limit, positive when it traded through.
    const f64 beyond = side > 0 ? limit - bar.low : bar.high - limit;
    const bool filled = beyond > 0.0 || (beyond == 0.0 && queue_draw < p.queue_prob);
    if (!filled) return no_fill();
    const f64 reach = clamp((beyond + 1.0) / (bar.high - bar.low + 1.0), 0.0, 1.0);
    const i32 n = lots_within_share(side, absolute(lots), share * reach, bar, p);
    return n == 0 ? no_fill() : Fill{side * n, limit, limit, 0.0, true};
}

FOX_FN Fill limit_fill(const Order& q, f64 share, const EnvState& s, f64 decided_at, const MarketRow& bar,
                       const Costs& c, const EnvParams& p) {
    const i32 side = sign_of(q.lots);
    const f64 offset = p.limit_offset.at[q.urgency];
    const f64 limit = side > 0 ? floor_of(decided_at - offset) : ceil_of(decided_at + offset);
    const Fill taker = taker_fill(q.lots, share, bar, c, p);
    if (taker.lots != 0 && (f64)side * (limit - taker.price) >= 0.0) return taker;
    const Philox draw = philox(s.key, s.stream, (u32)s.episode, (u32)(s.bar - s.start_bar), DRAW_QUEUE);
    return resting_fill(q.lots, limit, share, bar, uniform(draw), p);
}

// The fill of an order decided at the close `decided_at`, with or without a session gap before the execution bar.
FOX_FN Fill fill_order(const Order& q, const EnvState& s, f64 decided_at, bool gap, const MarketRow& bar,
                       const Costs& c, const EnvParams& p) {
    if (q.lots == 0) return no_fill();
    const f64 share = p.participation.at[q.urgency] * bar.volume;
    if (q.type == ORDER_TYPE_MARKET) return taker_fill(q.lots, share, bar, c, p);
    if (gap && !p.good_till_cancelled) return no_fill();
    if (q.type == ORDER_TYPE_LIMIT) return limit_fill(q, share, s, decided_at, bar, c, p);
    const f64 against = (f64)sign_of(q.lots) * (bar.open - decided_at);
    if (against > p.ioc_tolerance.at[q.urgency]) return no_fill();
    return taker_fill(q.lots, 0.5 * share, bar, c, p);
}

FOX_FN i32 status_of(const Order& q, const Fill& f) {
    if (q.status != ORDER_STATUS_NONE || q.lots == 0) return q.status;
    if (f.lots == q.lots) return ORDER_STATUS_FILLED;
    if (f.lots == 0) return ORDER_STATUS_UNFILLED;
    return q.type == ORDER_TYPE_MARKET ? ORDER_STATUS_PARTICIPATION : ORDER_STATUS_PARTIAL;
}

}  // namespace FOX_NAMESPACE
