// Compiled sizes of the shared structures, for the check at load time.
#pragma once
#include "host_level.h"

namespace FOX_NAMESPACE {

inline i32 structure_sizes(i64* out, i32 capacity) {
    const i64 sizes[] = {sizeof(EnvParams),
                         sizeof(MarketRow),
                         sizeof(StateArrays),
                         sizeof(InfoArrays),
                         sizeof(CounterfactualArrays),
                         sizeof(TradeRecord),
                         sizeof(TradedMarket),
                         sizeof(Batch),
                         sizeof(Actions),
                         sizeof(ResetRequest),
                         sizeof(OutputCopies),
                         sizeof(MetricArrays)};
    const i32 count = (i32)(sizeof(sizes) / sizeof(sizes[0]));
    for (i32 i = 0; i < count && i < capacity; ++i) out[i] = sizes[i];
    return count;
}

}  // namespace FOX_NAMESPACE
