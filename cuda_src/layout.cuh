// The one declaration of every enum, structure and observation slot that C++ and Python share.
//
// fox_env/_layout.py parses this file: `enum NAME : TYPE { PREFIX_VALUE = n, }` becomes an IntEnum, and every line
// `X(type, name, "meaning")` of a FOX_..._FIELDS list becomes a field of the structure of that list. Both backends
// check at load time that the compiled sizes equal the parsed ones.
#pragma once
#include "platform.cuh"

namespace FOX_NAMESPACE {

// ---- actions ---------------------------------------------------------------------------------------------------
enum Direction : i32 { DIRECTION_SHORT = 0, DIRECTION_HOLD = 1, DIRECTION_LONG = 2, DIRECTION_FLAT = 3 };
enum Magnitude : i32 { MAGNITUDE_QUARTER = 0, MAGNITUDE_HALF = 1, MAGNITUDE_FULL = 2 };
enum OrderType : i32 { ORDER_TYPE_MARKET = 0, ORDER_TYPE_LIMIT = 1, ORDER_TYPE_IOC = 2 };
enum Urgency : i32 { URGENCY_PATIENT = 0, URGENCY_NORMAL = 1, URGENCY_AGGRESSIVE = 2 };

// Sizes of the masks of distinct actions, and of the counterfactuals: the entries of the four branches together, and
// the exposures of the discrete action space.
enum ActionSpace : i32 { ACTION_SPACE_BRANCH_ENTRIES = 13, ACTION_SPACE_EXPOSURES = 8 };
static_assert(ACTION_SPACE_BRANCH_ENTRIES == DIRECTION_FLAT + MAGNITUDE_FULL + ORDER_TYPE_IOC + URGENCY_AGGRESSIVE + 4,
              "one entry a value of a branch");

// How the action array is encoded: four branches a row, one of eight exposures, or a target exposure in [-1, 1].
enum ActionFormat : i32 {
    ACTION_FORMAT_BRANCHES_I64 = 0,
    ACTION_FORMAT_BRANCHES_I32 = 1,
    ACTION_FORMAT_BRANCHES_U8 = 2,
    ACTION_FORMAT_DISCRETE_I64 = 3,
    ACTION_FORMAT_CONTINUOUS_F32 = 4
};

// ---- outcomes --------------------------------------------------------------------------------------------------
enum OrderStatus : i32 {
    ORDER_STATUS_NONE = 0,           // no order: the target is the position
    ORDER_STATUS_FILLED = 1,         // the whole order
    ORDER_STATUS_PARTIAL = 2,        // a part of a limit or IOC order
    ORDER_STATUS_UNFILLED = 3,       // nothing: price not reached, open too far away, or no volume
    ORDER_STATUS_MARGIN = 4,         // initial margin cut the target
    ORDER_STATUS_KELLY = 5,          // the Kelly cap cut the target
    ORDER_STATUS_PARTICIPATION = 6,  // the share of the bar's volume cut a market order
    ORDER_STATUS_MIN_HOLD = 7,       // the trade is younger than the minimum holding time
    ORDER_STATUS_INVALID = 8         // the action was outside the action space and acted as Hold
};
enum ExitReason : i32 {
    EXIT_REASON_NONE = 0,
    EXIT_REASON_AGENT = 1,
    EXIT_REASON_STOP = 2,
    EXIT_REASON_TARGET = 3,
    EXIT_REASON_MARGIN = 4,
    EXIT_REASON_SESSION = 5,
    EXIT_REASON_EPISODE_END = 6,
    EXIT_REASON_FLOOR = 7
};
enum RewardMode : i32 { REWARD_MODE_RETURN = 0, REWARD_MODE_RISK = 1, REWARD_MODE_TRADE = 2 };

// Terms of the trade reward, in the order of info.reward_components.
enum RewardTerm : i32 {
    REWARD_TERM_TRADE = 0,
    REWARD_TERM_PATH = 1,
    REWARD_TERM_MICRO = 2,
    REWARD_TERM_CARRY = 3,
    REWARD_TERM_OPPORTUNITY = 4,
    REWARD_TERM_COUNT = 5
};
enum AutoresetMode : i32 { AUTORESET_MODE_NEXT_STEP = 0, AUTORESET_MODE_SAME_STEP = 1, AUTORESET_MODE_DISABLED = 2 };

// Bits of MarketRow::flags.
enum BarFlag : i32 {
    BAR_FLAG_GAP = 1,
    BAR_FLAG_SESSION_END = 2,
    BAR_FLAG_ROLL = 4,
    BAR_FLAG_LOCKED_UP = 8,     // at the upper price limit: nobody sells
    BAR_FLAG_LOCKED_DOWN = 16,  // at the lower price limit: nobody buys
    BAR_FLAG_DAY_END = 32,      // the last bar of a trading day
    BAR_FLAG_OPEN_UP = 64,      // opens at the upper price limit: nobody sells there
    BAR_FLAG_OPEN_DOWN = 128    // opens at the lower price limit: nobody buys there
};

// Groups of rules with state of their own. A step is compiled with the groups that some account of the batch uses; an
// account whose parameters switch a rule off is the same with and without it.
enum Rules : u32 {
    RULES_NONE = 0,
    RULES_EXITS = 1,         // stops, targets, intrabar margin, session ends, margins of the day
    RULES_KELLY = 2,         // the Kelly cap
    RULES_LATENCY = 4,       // orders that are executed a bar later
    RULES_TRADE_REWARD = 8,  // the trade reward
    RULES_CLOSE_TODAY = 16,  // fees that depend on the day of the opening
    RULES_ALL = 31
};

// Knobs: scalars in device memory, so that a captured CUDA graph sees a change. The physics knobs act in training and
// in validation; the training knobs touch no money while exploration_scale is 0.
enum Knob : i32 {
    KNOB_EXPLORATION_SCALE = 0,   // training: x
    KNOB_SHAPING_SCALE = 1,       // training: y
    KNOB_SABOTEUR_INTENSITY = 2,  // training: share of the saboteur's draw
    KNOB_KELLY_FLOOR = 3,         // physics: least Kelly fraction before safety
    KNOB_KELLY_SAFETY = 4,        // physics: factor on the Kelly fraction
    KNOB_TRAIL_SHORT = 5,         // physics: ATR multiples between a short trade and its trailing stop; 0: no stop
    KNOB_TRAIL_LONG = 6,          // physics: the same of a long trade
    KNOB_EARLY_EXIT_BARS = 7,     // training: T of the early-exit factor d / (d + T)
    KNOB_WEIGHT_TRADE = 8,        // training: weights of the terms of the trade reward, in the order of RewardTerm
    KNOB_WEIGHT_PATH = 9,
    KNOB_WEIGHT_MICRO = 10,
    KNOB_WEIGHT_CARRY = 11,
    KNOB_WEIGHT_OPPORTUNITY = 12,
    KNOB_COUNT = 13
};

// Words of the sticky error flags that a device batch raises at the next call.
enum Fault : i32 { FAULT_BAD_ACTION = 0, FAULT_STEP_AFTER_END = 1, FAULT_COUNT = 2 };

// What each random number is for: the last word of the counter.
enum Draw : i32 { DRAW_START = 0, DRAW_COST = 1, DRAW_QUEUE = 2, DRAW_TARGET = 3 };

// Rows of the counts of what became of the agent's orders (metrics.cuh).
enum Executed : i32 {
    EXECUTED_STATUS = 0,      // bars by OrderStatus
    EXECUTED_BUY = 9,         // bars in which the order bought something
    EXECUTED_SELL = 10,       // or sold something
    EXECUTED_DIRECTION = 11,  // the Direction behind a fill
    EXECUTED_MAGNITUDE = 15,  // the Magnitude, where another one would have asked for another order
    EXECUTED_ORDER = 18,      // the OrderType
    EXECUTED_URGENCY = 21,    // the Urgency
    EXECUTED_SIZE = 24
};

// On the GPU: threads of a block and of a warp, and the arrays that one launch can copy.
enum Launch : i32 { LAUNCH_BLOCK = 128, LAUNCH_WARP = 32, LAUNCH_COPIES = 5 };

// ---- observation: 128 float32 ----------------------------------------------------------------------------------
enum Observation : i32 {
    OBS_MARKET = 0,
    OBS_ORDER_FLOW = 42,
    OBS_TIMEFRAMES = 62,
    OBS_PORTFOLIO = 86,
    OBS_CONTEXT = 118,
    OBS_SIZE = 128,
    OBS_FEATURES = 86,        // the part that comes from the feature table
    OBS_ACCOUNT = 42,         // the part that the physics writes: portfolio and context
    OBS_FEATURE_STRIDE = 88,  // floats between two rows of the feature table, so that rows start on 16 bytes
    OBS_LIMIT = 10            // every entry lies in [-10, 10]
};
enum Portfolio : i32 {
    PORTFOLIO_POSITION = 0,          // position / max_position
    PORTFOLIO_SIDE = 1,              // -1, 0, +1
    PORTFOLIO_UNREALIZED_R = 2,      // open P&L / (risk_atr * ATR * |position|)
    PORTFOLIO_BARS_IN_TRADE = 3,     // bars / 100
    PORTFOLIO_DRAWDOWN = 4,          // equity / peak equity - 1
    PORTFOLIO_EQUITY_RATIO = 5,      // equity / initial cash - 1
    PORTFOLIO_KELLY_CAP = 6,         // Kelly fraction in force, 0 without the Kelly cap
    PORTFOLIO_MARGIN_USE = 7,        // maintenance margin in use / equity
    PORTFOLIO_STOP_DISTANCE = 8,     // (close - stop) / ATR towards profit, 0 without a stop
    PORTFOLIO_LAST_TRADE_R = 9,      // R-multiple of the last finished trade of the episode
    PORTFOLIO_WIN_RATE = 10,         // (wins + 1) / (trades + 2) - 1/2
    PORTFOLIO_COSTS_PAID = 11,       // 100 * costs of the episode / initial cash
    PORTFOLIO_MIN_HOLD_LEFT = 12,    // bars that the trade is still too young for / min_hold_bars
    PORTFOLIO_TRADES = 13,           // finished trades / 100
    PORTFOLIO_TRADE_MAE_R = 14,      // worst open P&L of the trade / its risk
    PORTFOLIO_TRADE_MFE_R = 15,      // best open P&L of the trade / its risk
    PORTFOLIO_ENTRY_DISTANCE = 16,   // (close - average entry) / ATR
    PORTFOLIO_TRADE_RETURN = 17,     // 100 * open and realised P&L of the trade / equity
    PORTFOLIO_MARGIN_HEADROOM = 18,  // lots that initial margin allows / max_position, at most 1
    PORTFOLIO_ORDER_UNDER_WAY = 19,  // lots of an order not executed yet / max_position
    PORTFOLIO_USED = 20,             // entries from here to 31 are zero
    PORTFOLIO_SIZE = 32
};
enum Context : i32 {
    CONTEXT_SPREAD = 0,            // half-spread in force / ATR
    CONTEXT_FEE = 1,               // fee of one contract and side / (ATR * tick value)
    CONTEXT_IMPACT = 2,            // impact of max_position in force / ATR
    CONTEXT_TICK = 3,              // tick / ATR
    CONTEXT_SESSION_PROGRESS = 4,  // 0 at the session's first bar to 1 at its last
    CONTEXT_EPISODE_PROGRESS = 5,  // steps / horizon, 0 without a horizon
    CONTEXT_USED = 6,              // entries from here to 9 are zero
    CONTEXT_SIZE = 10
};

// ---- parameters: fixed for the life of an environment -----------------------------------------------------------
#define FOX_PARAM_FIELDS(X)                                                                                     \
    X(f64, initial_cash, "money at the start of an episode")                                                    \
    X(f64, lot, "contracts per lot")                                                                            \
    X(f64, tick_value, "money per tick and contract: tick_size * multiplier")                                   \
    X(f64, tick_size, "price per tick")                                                                         \
    X(f64, floor_equity, "money; equity at or below it ends the episode")                                       \
    X(f64, half_spread, "ticks")                                                                                \
    X(f64, impact_coef, "eta of the square-root impact; 0 for data without volume")                             \
    X(f64, fee_per_side, "money per contract and side")                                                         \
    X(f64, fee_rate, "fraction of the notional per side")                                                       \
    X(f64, maker_fee, "money per contract and side of a resting fill")                                          \
    X(f64, initial_margin, "money per contract during the day; 0 means no cap")                                 \
    X(f64, maintenance_margin, "money per contract during the day; 0 means no liquidation")                     \
    X(f64, overnight_margin, "money per contract: the maintenance margin at the end of a trading day")          \
    X(f64, today_fee, "money per contract of closing what was opened on the same trading day")                  \
    X(f64, today_fee_rate, "fraction of the notional, likewise")                                                \
    X(f64x3, participation, "share of the bar's volume, by urgency")                                            \
    X(f64x3, limit_offset, "ticks, by urgency")                                                                 \
    X(f64x3, ioc_tolerance, "ticks, by urgency")                                                                \
    X(f64, queue_prob, "chance that a limit touched exactly is filled")                                         \
    X(f64, risk_atr, "ATR multiples that count as one R of a trade without a stop")                             \
    X(f64, target_atr, "ATR multiples between a trade and its profit target; 0: no target")                     \
    X(f64, risk_unit, "money: the unit U of the risk and the trade reward")                                     \
    X(f64, reward_scale, "factor of the return reward")                                                         \
    X(f64, loss_cap, "U: least trade reward of one trade")                                                      \
    X(f64, gain_cap, "U: greatest trade reward of one trade")                                                   \
    X(f64, path_band, "U: drawdown of a trade that the path term leaves free")                                  \
    X(f64, carry_price, "U: the carry term of a bar with a position and no order")                              \
    X(f64, floor_penalty, "U: taken off the trade reward where the capital floor ends an episode")              \
    X(f64, saboteur_low, "least cost factor of an exploring episode")                                           \
    X(f64, saboteur_high, "greatest cost factor of an exploring episode")                                       \
    X(i32, max_lots, "position limit in lots")                                                                  \
    X(i32, horizon, "steps of an episode; 0 means until the data end")                                          \
    X(i32, first_start, "first bar a random start may decide on")                                               \
    X(i32, start_count, "number of bars a random start chooses among")                                          \
    X(i32, reward_mode, "a RewardMode")                                                                         \
    X(i32, autoreset_mode, "an AutoresetMode")                                                                  \
    X(i32, has_volume, "0: no participation limit and no impact")                                               \
    X(i32, close_at_end, "1: sell at the last mark when an episode ends")                                       \
    X(i32, good_till_cancelled, "1: limit and IOC orders survive a session gap")                                \
    X(i32, close_today, "1: today_fee and today_fee_rate hold for closing what was opened on the same trading day") \
    X(i32, min_hold, "bars that a trade is to be held")                                                         \
    X(i32, hard_hold, "1: orders in a younger trade are ignored; 0: only the trade reward sees them")           \
    X(i32, kelly, "1: the Kelly cap limits what an order may open")                                             \
    X(i32, latency, "1: an order is executed one bar later")                                                    \
    X(i32, intrabar_margin, "1: maintenance is checked at the bar's adverse extreme too")                       \
    X(i32, flat_at_session_end, "1: nothing is held over a session's end")

// ---- market: one row a bar, read-only, shared by all environments that trade it ------------------------------------
// Aligned to 16 bytes; what a decision needs of its own bar comes first, in one 32-byte sector.
#define FOX_MARKET_ROW_FIELDS(X)                                                  \
    X(f64, close, "ticks")                                                        \
    X(f64, atr, "ticks: Wilder's average true range, at least 1")                 \
    X(f64, mean_volume, "contracts: mean of the last 20 bars")                    \
    X(f32, session_progress, "0 to 1")                                            \
    X(u32, flags, "BarFlag bits")                                                 \
    X(f64, open, "ticks")                                                         \
    X(f64, high, "ticks")                                                         \
    X(f64, low, "ticks")                                                          \
    X(f64, volume, "contracts")

// ---- state: one value an environment, one array a field -----------------------------------------------------------
// Fields that any step may change.
#define FOX_STEP_STATE_FIELDS(X)                                                              \
    X(f64, cash, "money: initial cash + realised P&L - fees")                                 \
    X(f64, entry, "ticks: average entry of the open position, 0 when flat")                   \
    X(f64, peak_equity, "money: highest equity at a close of this episode")                   \
    X(f64, costs_paid, "money: fees + spread + impact of this episode")                       \
    X(f64, last_r, "R-multiple of the last finished trade of this episode")                   \
    X(f64, trade_equity, "money: equity when the open trade began")                           \
    X(f64, trade_net, "money: realised P&L less fees of the open trade")                      \
    X(f64, trade_risk, "money: sum of k * ATR * n * tick value over opening fills")           \
    X(f64, trade_costs, "money: fees + spread + impact of the open trade")                    \
    X(f64, trade_mae, "money: worst P&L of the open trade, at most 0")                        \
    X(f64, trade_mfe, "money: best P&L of the open trade, at least 0")                        \
    X(i32, lots, "signed position in lots")                                                   \
    X(i32, trade_max_lots, "largest size of the open trade in lots")                          \
    X(i32, bars_in_trade, "closes since the open trade began")                                \
    X(i32, bar, "index of the decision bar")                                                  \
    X(i32, trade_count, "finished trades of this episode")                                    \
    X(i32, win_count, "finished trades of this episode with net P&L above 0")                 \
    X(i32, ledger_count, "trades ever written to the ledger since the last seeding")          \
    X(u8, done, "1: the episode has ended and waits for a reset")

// Levels of the open trade, of environments that have stops or targets (exits.cuh).
#define FOX_EXIT_STATE_FIELDS(X)                                               \
    X(f64, stop, "ticks: trailing stop")                                       \
    X(f64, stop_distance, "ticks: k * ATR at the trade's entry; 0: no stop")   \
    X(f64, target, "ticks: profit target")

// Record of finished trades for the Kelly cap: kept over episodes, cleared by seeding (kelly.cuh).
#define FOX_KELLY_STATE_FIELDS(X)                                              \
    X(f64, kelly_wins, "decayed number of winning trades")                     \
    X(f64, kelly_losses, "decayed number of trades that made nothing or less") \
    X(f64, kelly_gain, "decayed sum of winning trade returns")                 \
    X(f64, kelly_loss, "decayed sum of the sizes of losing trade returns")

// The order under way, of accounts with latency (latency.cuh).
#define FOX_LATENCY_STATE_FIELDS(X)                                                           \
    X(f64, pending_exposure, "|target| of the order under way as a fraction of max_position") \
    X(f64, pending_conviction, "its conviction")                                              \
    X(f64, pending_close, "ticks: the close that it was decided at")                          \
    X(u32, pending, "its side, type and urgency; 0: no order is under way")

// What the trade reward remembers (reward.cuh).
#define FOX_REWARD_STATE_FIELDS(X) X(f64, flat_price, "ticks: the reference price at which the account became flat")

// What fees that depend on the day of the opening remember (ledger.cuh).
#define FOX_TODAY_STATE_FIELDS(X) X(i32, lots_today, "lots of the open position that were opened on this trading day")

// Fields that only the beginning of an episode changes.
#define FOX_EPISODE_STATE_FIELDS(X)                                                           \
    X(f64, cost_draw, "saboteur factor u drawn for this episode")                             \
    X(i32, start_bar, "decision bar at the episode's start")                                  \
    X(i32, episode, "episodes begun since the last seeding, less one")                        \
    X(u32, stream, "environment word of the random counter")                                  \
    X(u64, key, "random key: splitmix64 of the seed")

#define FOX_STATE_FIELDS(X)                                                               \
    FOX_STEP_STATE_FIELDS(X) FOX_EXIT_STATE_FIELDS(X) FOX_KELLY_STATE_FIELDS(X)           \
    FOX_LATENCY_STATE_FIELDS(X) FOX_REWARD_STATE_FIELDS(X) FOX_TODAY_STATE_FIELDS(X)      \
    FOX_EPISODE_STATE_FIELDS(X)

// ---- outputs: one array a field; a null pointer means that nobody asked for it --------------------------------------
#define FOX_INFO_FIELDS(X)                                                                          \
    X(f64, equity, "money at the close of bar_index")                                               \
    X(f64, cash, "money")                                                                           \
    X(f64, position, "signed contracts")                                                            \
    X(f64, entry_price, "price: average entry, 0 when flat")                                        \
    X(f64, unrealized, "money")                                                                     \
    X(f64, fill_quantity, "signed contracts of the agent's own order")                              \
    X(f64, fill_price, "price, NaN without a fill")                                                 \
    X(f64, fees, "money of this step")                                                              \
    X(f64, cost, "money: fees + spread + impact of this step")                                      \
    X(f64, spread_cost, "money of this step: half-spreads inside the fill prices")                  \
    X(f64, impact_cost, "money of this step: impact inside the fill prices")                        \
    X(f64, step_return, "equity change of this step / equity before it")                            \
    X(f64, trade_return, "net P&L / equity at start of the last trade ended in this step")          \
    X(f64, trade_r, "R-multiple of the last trade ended in this step")                              \
    X(f64, trade_bars, "bars held by the last trade ended in this step")                            \
    X(i64, bar_index, "the bar whose close the equity is marked at")                                \
    X(i8, order_status, "an OrderStatus")                                                           \
    X(i8, trade_closed, "trades ended in this step")                                                \
    X(i8, exit_reason, "an ExitReason")                                                             \
    X(u32, branch_active, "four bytes, one a branch: 1 where it had an effect")                     \
    X(f32x5, reward_components, "weighted terms of the trade reward, in the order of RewardTerm")

// ---- counterfactuals: what each of the eight exposures would have led to, one row an environment -------------------
#define FOX_COUNTERFACTUAL_FIELDS(X)                                          \
    X(f32, reward, "(N, EXPOSURES)")                                          \
    X(u8, terminated, "(N, EXPOSURES)")                                       \
    X(u8, truncated, "(N, 8)")                                                \
    X(f32, account, "(N, EXPOSURES, OBS_ACCOUNT): the account's part of the next observation")

// ---- trade ledger: the last `capacity` trades of every environment --------------------------------------------------
#define FOX_TRADE_FIELDS(X)                                                      \
    X(f64, size, "contracts: largest size of the trade")                         \
    X(f64, entry, "ticks: average entry at the close of the trade")              \
    X(f64, exit, "ticks: price of the closing fill")                             \
    X(f64, pnl, "money: net of fees, spread and impact")                         \
    X(f64, trade_return, "pnl / equity at the start of the trade")               \
    X(f64, r, "pnl / risk of the trade")                                         \
    X(f64, mae, "money: worst P&L at a bar's extreme or the exit, at most 0")    \
    X(f64, mfe, "money: best P&L at a bar's extreme or the exit, at least 0")    \
    X(f64, costs, "money: fees + spread + impact")                               \
    X(i32, episode, "episode number of the environment")                         \
    X(i32, entry_bar, "index of the bar of the first fill")                      \
    X(i32, exit_bar, "index of the bar of the closing fill")                     \
    X(i8, side, "+1 long, -1 short")                                             \
    X(i8, reason, "an ExitReason")                                               \
    X(u16, padding, "always 0")

// ---- performance: sums of every account since their last clearing, one array a field (metrics.cuh) -----------------
#define FOX_METRIC_FIELDS(X)                                                              \
    X(i64, bars, "steps, without those that only begin an episode")                       \
    X(f64, mean, "mean step return")                                                      \
    X(f64, squares, "sum of squared distances of the step returns from their mean")       \
    X(f64, largest, "largest absolute step return")                                       \
    X(f64, downside, "sum of the squares of negative step returns")                       \
    X(f64, growth, "product of 1 + step return")                                          \
    X(f64, growth_peak, "its highest value, at least 1")                                  \
    X(f64, drawdown, "deepest growth / growth_peak - 1")                                  \
    X(i64, bars_below, "bars since growth was at its peak")                               \
    X(i64, drawdown_bars, "the most of them")                                             \
    X(i64, exposed, "bars that ended with a position, before a restart")                  \
    X(f64, notional, "money: price * size of the agent's fills")                          \
    X(f64, net, "money: equity changes")                                                  \
    X(f64, fees, "money")                                                                 \
    X(f64, spread, "money: half-spreads inside the fill prices")                          \
    X(f64, impact, "money: impact inside the fill prices")                                \
    X(i64, trades, "finished trades")                                                     \
    X(i64, wins, "those with net P&L above 0")                                            \
    X(f64, gains, "money: net P&L of the trades that made some")                          \
    X(f64, losses, "money: net P&L of the trades that lost, as a positive number")        \
    X(i64, known_r, "trades with a finite R-multiple")                                    \
    X(f64, trade_r, "sum of these R-multiples")                                           \
    X(f64, trade_return, "sum of net P&L / equity at the trade's start")                  \
    X(i64, trade_bars, "sum of the bars that trades were held")

// What the trades that ended in one step add to them.
struct TradeSums {
    i32 wins;
    i32 known_r;
    i32 bars;
    f64 gains;
    f64 losses;
    f64 r;
    f64 trade_return;
};

#define FOX_MEMBER(type, name, meaning) type name;
#define FOX_POINTER(type, name, meaning) type* name;

struct EnvParams {
    FOX_PARAM_FIELDS(FOX_MEMBER)
};
struct alignas(16) MarketRow {
    FOX_MARKET_ROW_FIELDS(FOX_MEMBER)
};
struct EnvState {
    FOX_STATE_FIELDS(FOX_MEMBER)
};
struct StateArrays {
    FOX_STATE_FIELDS(FOX_POINTER)
};
struct StepInfo {
    FOX_INFO_FIELDS(FOX_MEMBER)
    f64 trade_reward;  // U: the trade term of the trades ended in this step (reward.cuh)
    f64 missed;        // U: the opportunity term of the trades begun in this step
    TradeSums ended;   // read by the performance sums alone
};
struct InfoArrays {
    FOX_INFO_FIELDS(FOX_POINTER)
};
struct TradeRecord {
    FOX_TRADE_FIELDS(FOX_MEMBER)
};
struct CounterfactualArrays {
    FOX_COUNTERFACTUAL_FIELDS(FOX_POINTER)
};
struct EnvMetrics {
    FOX_METRIC_FIELDS(FOX_MEMBER)
};
struct MetricArrays {
    FOX_METRIC_FIELDS(FOX_POINTER)
    i64* executed;  // (EXECUTED_SIZE, N)
};

// A market and the parameters of the accounts that trade it.
#define FOX_MARKET_FIELDS(X)                                         \
    X(EnvParams, params, "fixed parameters")                         \
    X(const MarketRow*, rows, "(T,) market rows")                    \
    X(const f32*, features, "(T, OBS_FEATURE_STRIDE) feature table") \
    X(const f64*, roll_gaps, "(T,) ticks, read where BAR_FLAG_ROLL is set") \
    X(i64, bars, "T")

struct TradedMarket {
    FOX_MARKET_FIELDS(FOX_MEMBER)
};

// Everything one batch needs; the same structure for the kernel and for the host loop. A batch of one market holds it
// itself, where a kernel reads it as constants; a batch of several has a table of them.
#define FOX_BATCH_FIELDS(X)                                                             \
    X(TradedMarket, market, "the market of all environments")                          \
    X(const TradedMarket*, markets, "the markets of a batch of several, or null")       \
    X(const i32*, market_of, "(N,) index into markets, with them")                      \
    X(const f64*, knobs, "(KNOB_COUNT,)")                                               \
    X(u32*, faults, "(FAULT_COUNT,) sticky flags")                                      \
    X(i64, rules, "Rules that some account uses")                                       \
    X(i64, num_envs, "N")                                                               \
    X(StateArrays, state, "arrays of N")                                                \
    X(f32*, obs, "(N, OBS_SIZE)")                                                       \
    X(f32*, final_obs, "(N, OBS_SIZE) of episodes that ended in SAME_STEP mode")        \
    X(u8*, final_masks, "(N, BRANCH_ENTRIES) distinct actions of those last states, or null") \
    X(f32*, reward, "(N,)")                                                             \
    X(u8*, terminated, "(N,)")                                                          \
    X(u8*, truncated, "(N,)")                                                           \
    X(InfoArrays, info, "arrays of N, or null")                                         \
    X(InfoArrays, final_info, "the same for episodes that ended in SAME_STEP mode")     \
    X(CounterfactualArrays, counterfactual, "arrays of N, or null")                     \
    X(TradeRecord*, ledger, "(N, ledger_capacity), or null")                            \
    X(i64, ledger_capacity, "trades kept per environment")

struct Batch {
    FOX_BATCH_FIELDS(FOX_MEMBER)
};

}  // namespace FOX_NAMESPACE
