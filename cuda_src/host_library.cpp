// The C ABI that Python loads with ctypes. It picks the best x86-64 level of this processor once; FOX_CPU_LEVEL
// (v2, v3, v4) forces a lower one, so that the levels can be compared bit for bit.
#include <omp.h>

#include <cstdlib>
#include <cstring>

#include "layout_sizes.h"

#if defined(__x86_64__)
#define FOX_LEVEL_NAMES(X) X(x86_64_v2, "v2") X(x86_64_v3, "v3") X(x86_64_v4, "v4")
#else
#define FOX_LEVEL_NAMES(X) X(generic, "generic")
#endif

// The structures are the same at every level; only their namespaces differ, so one level's view of them serves all.
#define FOX_DECLARE(suffix, name)          \
    namespace fox_##suffix {               \
    struct HostLevel;                      \
    extern const HostLevel host_level;     \
    }
FOX_LEVEL_NAMES(FOX_DECLARE)

namespace {

using Level = fox::HostLevel;

bool supported(const char* name) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!std::strcmp(name, "v4")) {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    }
    if (!std::strcmp(name, "v3")) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
               __builtin_cpu_supports("fma");
    }
#endif
    return std::strcmp(name, "") != 0;
}

struct Choice {
    const Level* level = nullptr;
    const char* name = "";
};

Choice choose() {
    const char* wanted = std::getenv("FOX_CPU_LEVEL");
    Choice best;
#define FOX_CONSIDER(suffix, label)                                                  \
    if (supported(label) && (!wanted || !*wanted || !best.level || std::strcmp(best.name, wanted) != 0)) \
        best = {reinterpret_cast<const Level*>(&fox_##suffix::host_level), label};
    FOX_LEVEL_NAMES(FOX_CONSIDER)
    return best;
}

const Choice& chosen() {
    static const Choice choice = choose();
    return choice;
}

}  // namespace

extern "C" {

const char* fox_cpu_level() { return chosen().name; }

const char* fox_source_digest() { return FOX_SOURCE_DIGEST; }

int fox_threads() { return omp_get_max_threads(); }

// Sizes of the shared structures, in the order that fox_env/_layout.py lists them.
int fox_structure_sizes(long long* out, int capacity) { return fox::structure_sizes(out, capacity); }

void fox_step(const fox::Batch* batch, const fox::Actions* actions, const fox::MetricArrays* metrics, int threads) {
    chosen().level->step(*batch, *actions, metrics, threads);
}

void fox_reset(const fox::Batch* batch, const fox::ResetRequest* request, int threads) {
    chosen().level->reset(*batch, *request, threads);
}

void fox_masks(const fox::Batch* batch, int exposures, unsigned char* out, int threads) {
    chosen().level->masks(*batch, exposures, out, threads);
}

void fox_counterfactual(const fox::Batch* batch, const fox::Actions* actions, int threads) {
    chosen().level->counterfactual(*batch, *actions, threads);
}

void fox_clear_metrics(const fox::MetricArrays* metrics, long long num_envs, const unsigned char* mask) {
    chosen().level->clear_metrics(*metrics, num_envs, mask);
}

long long fox_first_bad_action(const fox::Actions* actions, long long num_envs) {
    return chosen().level->first_bad_action(*actions, num_envs);
}

void fox_physics_columns(long long bars, const double* high, const double* low, const double* close,
                         const double* volume, double* atr, double* mean_volume) {
    chosen().level->physics_columns(bars, high, low, close, volume, atr, mean_volume);
}

// One block of the generator, so that it can be compared with the published vectors.
void fox_philox(const unsigned* counter, const unsigned* key, unsigned* out) {
    chosen().level->philox(counter, key, out);
}
}
