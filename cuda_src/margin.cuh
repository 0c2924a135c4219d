// Maintenance margin at the close: equity below maintenance * |position| is liquidated there at market cost. Without a
// maintenance margin nothing is: a debt is then the capital floor's matter.
#pragma once
#include "ledger.cuh"

namespace FOX_NAMESPACE {

FOX_FN void enforce_maintenance(EnvState& s, StepInfo& info, const MarketRow& bar, const Costs& c, const Booking& b) {
    const f64 required = b.params.maintenance_margin * contracts_of(absolute(s.lots), b.params);
    if (required > 0.0 && equity_at(s, bar.close, b.params) < required) {
        book_liquidation(s, info, bar.close, EXIT_REASON_MARGIN, c, b);
    }
}

}  // namespace FOX_NAMESPACE
