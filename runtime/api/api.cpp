// The table, and the two symbols of the library.
#include "runtime/api/mlc.h"
#include "runtime/api/table.h"

namespace {

namespace table = mlc::api::table;

constexpr MlcApi kApi = {
    MLC_API_VERSION,
    sizeof(MlcApi),
    table::open,
    table::model_release,
    table::model_info,
    table::model_note,
    table::program,
    table::port,
    table::explain,
    table::failing,
    table::choose,
    table::asset,
    table::asset_data,
    table::golden_inputs,
    table::authenticate,
    table::file_info,
    table::open_file,
    table::file_release,
    table::pool_create,
    table::pool_release,
    table::session_create,
    table::session_release,
    table::session_info,
    table::cancel_create,
    table::cancel,
    table::cancel_release,
    table::run,
    table::run_async,
    table::infer_shapes,
    table::state_reset,
    table::state_save,
    table::state_restore,
    table::selftest,
    table::profile,
    table::error_code,
    table::error_text,
    table::error_message,
    table::error_number,
    table::error_fact,
    table::error_help,
    table::error_release,
};

}  // namespace

extern "C" MLC_EXPORT const MlcApi* mlc_get_api(uint32_t version) {
  return version >= 1 && version <= MLC_API_VERSION ? &kApi : nullptr;
}

extern "C" MLC_EXPORT const char* mlc_version_string(void) { return MLC_VERSION_TEXT; }
