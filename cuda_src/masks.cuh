// Which actions are distinct in a state, and which branches of an action had an effect.
//
// When flat, Hold and Flat are one action; at the target, Hold and Long are. A direction is masked when all its sizes
// ask for no order, or for what Flat asks for; a size when it asks for the same order as the next smaller one on both
// sides. With latency the account that an action will meet is known only while it is flat and nothing is under way;
// otherwise all actions count as distinct.
#pragma once
#include "latency.cuh"
#include "target.cuh"

namespace FOX_NAMESPACE {

FOX_FN i32 lots_asked(i64 direction, i64 magnitude, const EnvState& s, const Cap& cap, const EnvParams& p) {
    const Intent a = branch_intent(direction, magnitude, ORDER_TYPE_MARKET, URGENCY_NORMAL);
    return order_for(a, 1.0, s, cap, p).lots;
}

// ACTION_SPACE_BRANCH_ENTRIES bits: direction 0-3, magnitude 4-6, order 7-9, urgency 10-12.
FOX_FN u32 branch_mask(const EnvState& s, const Cap& cap, const EnvParams& p) {
    const bool closes = lots_asked(DIRECTION_FLAT, MAGNITUDE_FULL, s, cap, p) != 0;
    u32 mask = (1u << DIRECTION_HOLD) | (closes ? 1u << DIRECTION_FLAT : 0u) | (0x3fu << 7) | (1u << 4);
    for (i64 side = DIRECTION_SHORT; side <= DIRECTION_LONG; side += 2) {
        i32 smaller = lots_asked(side, MAGNITUDE_QUARTER, s, cap, p);
        bool any = smaller != 0 && smaller != -s.lots;
        for (i64 magnitude = MAGNITUDE_HALF; magnitude <= MAGNITUDE_FULL; ++magnitude) {
            const i32 lots = lots_asked(side, magnitude, s, cap, p);
            any |= lots != 0 && lots != -s.lots;
            if (lots != smaller) mask |= 1u << (4 + magnitude);
            smaller = lots;
        }
        if (any) mask |= 1u << side;
    }
    return mask;
}

// One bit an exposure of the discrete action space; of equal orders the first counts, Hold before all.
FOX_FN u32 exposure_mask(const EnvState& s, const Cap& cap, const EnvParams& p) {
    u32 mask = 1u << 3;
    i32 seen[ACTION_SPACE_EXPOSURES];
    for (i32 action = 0; action < ACTION_SPACE_EXPOSURES; ++action) {
        seen[action] = order_for(discrete_intent(action), 1.0, s, cap, p).lots;
        bool distinct = seen[action] != 0;
        for (i32 earlier = 0; earlier < action; ++earlier) distinct &= seen[action] != seen[earlier];
        if (distinct) mask |= 1u << action;
    }
    return mask;
}

// Byte b: whether branch b of the action shaped the order. The magnitude counts when another one would have asked for
// another order; the order type and the urgency count when there was an order to place.
FOX_FN u32 active_branches(const Intent& a, const Order& q, const EnvState& before, const Cap& cap, f64 conviction,
                           const EnvParams& p) {
    u32 active = 1u;
    if (a.hold) return active;
    if (a.side != 0) {
        Intent other = a;
        for (i32 step = 0; step < 3; ++step) {
            other.exposure = step == 0 ? 0.25 : (step == 1 ? 0.5 : 1.0);
            if (order_for(other, conviction, before, cap, p).lots != q.lots) active |= 1u << 8;
        }
    }
    return q.lots != 0 ? active | 1u << 16 | 1u << 24 : active;
}

}  // namespace FOX_NAMESPACE
