// Maintenance margin: equity below maintenance * |position| is liquidated at market cost, at the close or already at the
// bar's adverse extreme. Without a maintenance margin nothing is: a debt is then the capital floor's matter.
#pragma once
#include "ledger.cuh"

namespace FOX_NAMESPACE {

FOX_FN void enforce_maintenance(EnvState& s, StepInfo& info, f64 mark, const Costs& c, const Booking& b) {
    const f64 required = b.params.maintenance_margin * contracts_of(absolute(s.lots), b.params);
    if (required > 0.0 && equity_at(s, mark, b.params) < required) {
        book_liquidation(s, info, mark, EXIT_REASON_MARGIN, c, b);
    }
}

// The worst price of a bar for a position; also for one that a resting order opened in it, as the path is unknown.
FOX_FN f64 adverse_extreme(const EnvState& s, const MarketRow& bar) { return s.lots > 0 ? bar.low : bar.high; }

}  // namespace FOX_NAMESPACE
