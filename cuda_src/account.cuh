// What the account is worth.
//
//   unrealised = position * (mark - average entry) * tick value
//   equity     = cash + unrealised
#pragma once
#include "layout.cuh"

namespace FOX_NAMESPACE {

FOX_FN f64 contracts_of(i32 lots, const EnvParams& p) { return (f64)lots * p.lot; }

FOX_FN f64 unrealised(const EnvState& s, f64 mark, const EnvParams& p) {
    return contracts_of(s.lots, p) * (mark - s.entry) * p.tick_value;
}

FOX_FN f64 equity_at(const EnvState& s, f64 mark, const EnvParams& p) { return s.cash + unrealised(s, mark, p); }

}  // namespace FOX_NAMESPACE
