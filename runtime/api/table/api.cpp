// The table, and the two symbols of the library.
#include <type_traits>

#include "base/out_of_memory.h"
#include "runtime/api/mlc.h"
#include "runtime/api/session/handles.h"
#include "runtime/api/table.h"

namespace {

namespace table = mlc::api::table;

template <class... Args>
MlcError** error_among(Args... args) {
  MlcError** error = nullptr;
  const auto look = [&](auto arg) {
    if constexpr (std::is_same_v<decltype(arg), MlcError**>) error = arg;
  };
  (look(args), ...);
  return error;
}

// An entry of the table that gives MLC_RESOURCE where there is no memory.
template <auto kFunction>
struct Guarded;
template <class... Args, int (*kFunction)(Args...)>
struct Guarded<kFunction> {
  static int call(Args... args) {
    int code = MLC_OK;
    if (mlc::has_memory_for([&] { code = kFunction(args...); })) return code;
    return mlc::api::fail_without_memory(error_among(args...));
  }
};
template <auto kFunction>
constexpr auto guarded = &Guarded<kFunction>::call;

// What stands here without a guard takes no memory.

constexpr MlcApi kApi = {
    MLC_API_VERSION,
    sizeof(MlcApi),
    guarded<table::open>,
    table::model_release,
    table::model_info,
    table::model_note,
    table::program,
    table::port,
    table::explain,
    table::failing,
    guarded<table::choose>,
    table::asset,
    guarded<table::asset_data>,
    guarded<table::golden_inputs>,
    guarded<table::authenticate>,
    table::file_info,
    guarded<table::open_file>,
    table::file_release,
    guarded<table::pool_create>,
    table::pool_release,
    guarded<table::session_create>,
    table::session_release,
    table::session_info,
    guarded<table::cancel_create>,
    table::cancel,
    table::cancel_release,
    guarded<table::run>,
    guarded<table::run_async>,
    guarded<table::infer_shapes>,
    guarded<table::state_reset>,
    guarded<table::state_save>,
    guarded<table::state_restore>,
    guarded<table::selftest>,
    guarded<table::profile>,
    table::error_code,
    table::error_text,
    table::error_message,
    table::error_number,
    table::error_fact,
    table::error_help,
    table::error_release,
    guarded<table::profile_moments>,
    table::device,
    table::stage,
    guarded<table::run_start>,
    table::run_wait,
    table::run_done,
    guarded<table::memory_create>,
    table::memory_release,
    table::memory_info,
    guarded<table::tensor_copy>,
    guarded<table::tensor_from_dlpack>,
    guarded<table::tensor_to_dlpack>,
    table::program_info,
    guarded<table::choose_for>,
};

}  // namespace

extern "C" MLC_EXPORT const MlcApi* mlc_get_api(uint32_t version) {
  return version >= 1 && version <= MLC_API_VERSION ? &kApi : nullptr;
}

extern "C" MLC_EXPORT const char* mlc_version_string(void) { return MLC_VERSION_TEXT; }
