// One environment of a batch: decode its action, step it, reset it where the autoreset mode says so, write its outputs.
//
//   NEXT_STEP  the call after an end resets: action ignored, reward 0, both flags false
//   SAME_STEP  the call that ends an episode also begins the next one; the last observation and info of the ended
//              episode go to final_obs and final_info. In info the account fields are then the new episode's, the
//              event fields (fill, costs, return, trade) those of the step
//   DISABLED   stepping an ended environment does nothing and raises a sticky fault
#pragma once
#include "layout.cuh"
#include "masks.cuh"
#include "metrics.cuh"
#include "observation.cuh"
#include "step.cuh"

namespace FOX_NAMESPACE {

struct Actions {
    const void* values;  // see ActionFormat
    i32 format;
    const f32* conviction;  // (N,) in [0, 1], or null
};

struct ResetRequest {
    const u8* mask;      // (N,), or null for all
    const i64* start;    // (N,) decision bar, negative for a draw; or null
    const u64* keys;     // (N,) random keys, or null to go on with the present ones
    const u32* streams;  // (N,) environment words of the counter; with keys
};

// Parts of a batch's outputs, which may overlap, and the memory of its own that each is copied to.
struct OutputCopies {
    const u8* outputs;
    i64 first[LAUNCH_COPIES];  // byte of the outputs, a multiple of 16
    i64 bytes[LAUNCH_COPIES];  // 0 for none
    u8* to[LAUNCH_COPIES];     // aligned to 16 bytes
};

// The market that environment i trades. MANY is known at compile time, so that a batch of one market pays nothing.
template <bool MANY>
FOX_FN const TradedMarket& market_of(const Batch& b, i64 i) {
    return MANY ? b.markets[b.market_of[i]] : b.market;
}

// Whether the batch uses a group of rules. A step compiled with all of them serves batches that use some.
template <u32 RULES>
FOX_FN bool in_use(const Batch& b, u32 group) {
    return (RULES & group) != 0 && (RULES != RULES_ALL || (b.rules & group) != 0);
}

// The fields of a group of rules that is not in use stay 0.
template <u32 RULES>
FOX_FN EnvState load_state(const Batch& b, i64 i) {
    const StateArrays& a = b.state;
    EnvState s = {};
#define FOX_LOAD(type, name, meaning) s.name = load_once(a.name + i);
    FOX_STEP_STATE_FIELDS(FOX_LOAD)
    if (in_use<RULES>(b, RULES_EXITS)) {
        FOX_EXIT_STATE_FIELDS(FOX_LOAD)
    }
    if (in_use<RULES>(b, RULES_KELLY)) {
        FOX_KELLY_STATE_FIELDS(FOX_LOAD)
    }
    if (in_use<RULES>(b, RULES_LATENCY)) {
        FOX_LATENCY_STATE_FIELDS(FOX_LOAD)
    }
    if (in_use<RULES>(b, RULES_TRADE_REWARD)) {
        FOX_REWARD_STATE_FIELDS(FOX_LOAD)
    }
    if (in_use<RULES>(b, RULES_CLOSE_TODAY)) {
        FOX_TODAY_STATE_FIELDS(FOX_LOAD)
    }
    FOX_EPISODE_STATE_FIELDS(FOX_LOAD)
#undef FOX_LOAD
    return s;
}

template <u32 RULES>
FOX_FN void store_state(const Batch& b, i64 i, const EnvState& s, bool restarted) {
    const StateArrays& a = b.state;
#define FOX_STORE(type, name, meaning) store_once(a.name + i, s.name);
    FOX_STEP_STATE_FIELDS(FOX_STORE)
    if (in_use<RULES>(b, RULES_EXITS)) {
        FOX_EXIT_STATE_FIELDS(FOX_STORE)
    }
    if (in_use<RULES>(b, RULES_KELLY)) {
        FOX_KELLY_STATE_FIELDS(FOX_STORE)
    }
    if (in_use<RULES>(b, RULES_LATENCY)) {
        FOX_LATENCY_STATE_FIELDS(FOX_STORE)
    }
    if (in_use<RULES>(b, RULES_TRADE_REWARD)) {
        FOX_REWARD_STATE_FIELDS(FOX_STORE)
    }
    if (in_use<RULES>(b, RULES_CLOSE_TODAY)) {
        FOX_TODAY_STATE_FIELDS(FOX_STORE)
    }
    if (restarted) {
        FOX_EPISODE_STATE_FIELDS(FOX_STORE)
    }
#undef FOX_STORE
}

FOX_FN void store_info(const InfoArrays& a, i64 i, const StepInfo& info) {
#define FOX_STORE(type, name, meaning) \
    if (a.name) a.name[i] = info.name;
    FOX_INFO_FIELDS(FOX_STORE)
#undef FOX_STORE
}

// Whether anybody reads the info arrays; they are asked for all together or field by field.
FOX_FN bool wants_info(const Batch& b) {
#define FOX_WANTED(type, name, meaning) || b.info.name
    return false FOX_INFO_FIELDS(FOX_WANTED);
#undef FOX_WANTED
}

// One action as it lies in memory. It is loaded together with the state and decoded later: decoding takes branches, and
// what comes after a branch that waits for memory waits too.
struct RawAction {
    i64 wide[4];
    i32 narrow[4];
    f32 exposure;
};

FOX_FN RawAction load_action(const Actions& a, i64 i) {
    RawAction raw = {};
    if (a.format == ACTION_FORMAT_BRANCHES_I64) {
        for (int j = 0; j < 4; ++j) raw.wide[j] = load_once((const i64*)a.values + 4 * i + j);
    } else if (a.format == ACTION_FORMAT_BRANCHES_I32) {
        for (int j = 0; j < 4; ++j) raw.narrow[j] = load_once((const i32*)a.values + 4 * i + j);
    } else if (a.format == ACTION_FORMAT_BRANCHES_U8) {
        raw.narrow[0] = load_once((const i32*)a.values + i);
    } else if (a.format == ACTION_FORMAT_DISCRETE_I64) {
        raw.wide[0] = load_once((const i64*)a.values + i);
    } else {
        raw.exposure = load_once((const f32*)a.values + i);
    }
    return raw;
}

FOX_FN Intent decode_action(const RawAction& raw, i32 format) {
    const i64* wide = raw.wide;
    const i32* narrow = raw.narrow;
    if (format == ACTION_FORMAT_BRANCHES_I64) return branch_intent(wide[0], wide[1], wide[2], wide[3]);
    if (format == ACTION_FORMAT_BRANCHES_I32) return branch_intent(narrow[0], narrow[1], narrow[2], narrow[3]);
    if (format == ACTION_FORMAT_BRANCHES_U8) {
        const u32 v = (u32)narrow[0];
        return branch_intent(v & 255u, (v >> 8) & 255u, (v >> 16) & 255u, v >> 24);
    }
    if (format == ACTION_FORMAT_DISCRETE_I64) return discrete_intent(wide[0]);
    return continuous_intent(raw.exposure);
}

// Device convictions are not checked before the launch: NaN counts as 0, so that no NaN reaches an integer cast.
FOX_FN f64 conviction_of(const Actions& a, i64 i) {
    if (!a.conviction) return 1.0;
    const f64 given = (f64)a.conviction[i];
    return given > 0.0 ? min_of(given, 1.0) : 0.0;
}

FOX_FN const f32* feature_row(const TradedMarket& m, i64 bar) { return m.features + bar * OBS_FEATURE_STRIDE; }

FOX_FN void copy_features(f32* out, const TradedMarket& m, i64 bar) {
    const f32* features = feature_row(m, bar);
    for (int j = 0; j < OBS_FEATURES; ++j) out[j] = features[j];
}

FOX_FN void write_final_observation(const Batch& b, const TradedMarket& m, i64 i, i64 bar, const f32* account) {
    f32* out = b.final_obs + i * OBS_SIZE;
    copy_features(out, m, bar);
    for (int j = 0; j < OBS_ACCOUNT; ++j) out[OBS_FEATURES + j] = account[j];
}

FOX_FN i32 mask_width(bool exposures) { return exposures ? ACTION_SPACE_EXPOSURES : ACTION_SPACE_BRANCH_ENTRIES; }

// Write a row of legal distinct actions, of the branches or of the exposures.
template <u32 RULES>
FOX_FN void write_mask(u8* out, const EnvState& s, const TradedMarket& m, const f64* knobs, bool exposures) {
    const Cap cap = position_cap<RULES>(s, equity_at(s, m.rows[s.bar].close, m.params), m.params, knobs);
    const i32 width = mask_width(exposures);
    u32 mask = exposures ? exposure_mask(s, cap, m.params) : branch_mask(s, cap, m.params);
    // A bar passes before an action is executed: a position may be stopped, an order under way filled by then.
    if ((RULES & RULES_LATENCY) && m.params.latency && (s.lots != 0 || !pending_intent(s).hold)) mask = ~0u;
    for (i32 j = 0; j < width; ++j) out[j] = (u8)((mask >> j) & 1u);
}

// Keep the ended episode's last view, then begin the next episode.
template <bool WITH_INFO, u32 RULES>
FOX_FN void restart_same_step(EnvState& s, Outcome& out, const Batch& b, const TradedMarket& m, i64 i, f32* account) {
    observe_account<RULES>(account, s, m.rows[s.bar], m.params, b.knobs);
    write_final_observation(b, m, i, s.bar, account);
    if (WITH_INFO) store_info(b.final_info, i, out.info);
    if (WITH_INFO && b.final_masks) write_mask<RULES>(b.final_masks + mask_width(false) * i, s, m, b.knobs, false);
    s.episode += 1;
    begin_episode(s, -1, m.params);
    mark_account(out.info, s, m.rows[s.bar], m.params);
}

FOX_FN Outcome step_after_end(EnvState& s, const Batch& b, const TradedMarket& m) {
    if (m.params.autoreset_mode == AUTORESET_MODE_DISABLED) {
        b.faults[FAULT_STEP_AFTER_END] = 1;
    } else {
        s.episode += 1;
        begin_episode(s, -1, m.params);
    }
    return {0.0f, {false, false}, quiet_info(s, m.rows[s.bar], m.params), {}};
}

// Step environment i and add the step to `metrics`. Its account entries go to `account` (OBS_ACCOUNT floats); returns
// the bar it now observes.
template <bool WITH_INFO, u32 RULES, typename Sums>
FOX_FN i32 advance(const Batch& b, const TradedMarket& m, i64 i, const Actions& actions, f32* account,
                   const Sums& metrics) {
    const RawAction action = load_action(actions, i);
    EnvState s = load_state<RULES>(b, i);
    const i32 episode = s.episode;
    Outcome out;
    if (s.done) {
        out = step_after_end(s, b, m);
    } else {
        const Intent intent = decode_action(action, actions.format);
        if (intent.invalid) b.faults[FAULT_BAD_ACTION] = 1;
        TradeRecord* ledger = b.ledger ? b.ledger + i * b.ledger_capacity : nullptr;
        const f64 equity = equity_at(s, m.rows[s.bar].close, m.params);
        out = env_step<WITH_INFO, RULES>(s, intent, conviction_of(actions, i), {m, b.knobs, ledger, b.ledger_capacity});
        metrics.add(i, out.acted_on, out.info, s.lots, out.info.equity - equity, m.params);
        if (s.done && m.params.autoreset_mode == AUTORESET_MODE_SAME_STEP)
            restart_same_step<WITH_INFO, RULES>(s, out, b, m, i, account);
    }
    store_state<RULES>(b, i, s, s.episode != episode);
    if (WITH_INFO) store_info(b.info, i, out.info);
    store_once(b.reward + i, out.reward);
    store_once(b.terminated + i, (u8)out.end.terminated);
    store_once(b.truncated + i, (u8)out.end.truncated);
    observe_account<RULES>(account, s, m.rows[s.bar], m.params, b.knobs);
    return s.bar;
}

FOX_FN void clear_counterfactuals(const CounterfactualArrays& a, i64 i) {
    for (i64 at = ACTION_SPACE_EXPOSURES * i; at < ACTION_SPACE_EXPOSURES * (i + 1); ++at) {
        a.reward[at] = 0.0f;
        a.terminated[at] = a.truncated[at] = 0;
        for (i64 j = 0; j < OBS_ACCOUNT; ++j) a.account[at * OBS_ACCOUNT + j] = 0.0f;
    }
}

// Reset environment i where the request says so; its observation is written either way.
template <u32 RULES>
FOX_FN i32 reset(const Batch& b, const TradedMarket& m, i64 i, const ResetRequest& request, f32* account) {
    EnvState s = load_state<RULES>(b, i);
    if (!request.mask || request.mask[i]) {
        s.episode += 1;
        if (request.keys) {
            s.key = request.keys[i];
            s.stream = request.streams[i];
            s.episode = 0;
            s.ledger_count = 0;
            clear_kelly_record(s);
        }
        begin_episode(s, request.start ? request.start[i] : -1, m.params);
        store_state<RULES>(b, i, s, true);
    }
    store_info(b.info, i, quiet_info(s, m.rows[s.bar], m.params));
    if (b.counterfactual.reward) clear_counterfactuals(b.counterfactual, i);
    observe_account<RULES>(account, s, m.rows[s.bar], m.params, b.knobs);
    return s.bar;
}

// The legal distinct actions of environment i.
template <u32 RULES>
FOX_FN void write_env_mask(const Batch& b, const TradedMarket& m, i64 i, bool exposures, u8* out) {
    write_mask<RULES>(out + i * mask_width(exposures), load_state<RULES>(b, i), m, b.knobs, exposures);
}

// What one of the eight exposures would lead to from the present state of environment i, which stays as it is. An
// environment that waits for its reset is paid nothing and keeps its account.
template <u32 RULES>
FOX_FN void evaluate_exposure(const Batch& b, const TradedMarket& m, i64 i, i32 exposure, const Actions& actions) {
    EnvState s = load_state<RULES>(b, i);
    Outcome out = {};
    if (!s.done) {
        out = env_step<false, RULES>(s, discrete_intent(exposure), conviction_of(actions, i), {m, b.knobs, nullptr, 0});
    }
    const i64 at = ACTION_SPACE_EXPOSURES * i + exposure;
    b.counterfactual.reward[at] = out.reward;
    b.counterfactual.terminated[at] = (u8)out.end.terminated;
    b.counterfactual.truncated[at] = (u8)out.end.truncated;
    observe_account<RULES>(b.counterfactual.account + at * OBS_ACCOUNT, s, m.rows[s.bar], m.params, b.knobs);
}

}  // namespace FOX_NAMESPACE
