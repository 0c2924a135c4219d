// Maintenance margin: equity below maintenance * |position| is liquidated at market cost, at the close or already at
// the bar's adverse extreme. At the close of a trading day's last bar the overnight margin is asked for, else the
// day's. Without a maintenance margin nothing is: a debt is then the capital floor's matter. A bar that cannot be
// traded in (no volume, or locked at a price limit) liquidates nothing; the next one that can does if equity is still
// too low, and after such a last bar of a day asks for the overnight margin.
#pragma once
#include "ledger.cuh"

namespace FOX_NAMESPACE {

// Money per contract that has to be there at the close of a bar. Contracts with day margins use RULES_EXITS; others ask
// for the same at every close.
template <u32 RULES>
FOX_FN f64 maintenance_at_close(const EnvState& s, const MarketRow& bar, const MarketRow* rows, const EnvParams& p) {
    if (!(RULES & RULES_EXITS) || p.overnight_margin == p.maintenance_margin) return p.maintenance_margin;
    const bool overnight = (bar.flags & BAR_FLAG_DAY_END) || duty_waits(s, BAR_FLAG_DAY_END, rows, p);
    return overnight ? p.overnight_margin : p.maintenance_margin;
}

template <u32 RULES>
FOX_FN void enforce_maintenance(EnvState& s, StepInfo& info, f64 per_contract, f64 mark, const MarketRow& bar,
                                const Costs& c, const Booking<RULES>& b) {
    const f64 required = per_contract * contracts_of(absolute(s.lots), b.params);
    if (required > 0.0 && equity_at(s, mark, b.params) < required && can_close(s, bar, b.params)) {
        book_liquidation(s, info, mark, EXIT_REASON_MARGIN, c, b);
    }
}

// The worst price of a bar for a position; also for one that a resting order opened in it, as the path is unknown.
FOX_FN f64 adverse_extreme(const EnvState& s, const MarketRow& bar) { return s.lots > 0 ? bar.low : bar.high; }

}  // namespace FOX_NAMESPACE
