/* A program of version 1: it knows mlc_1.h alone. Opens a container with a key, runs it, and ends with 0, or with 1 after a
 * line that says what went wrong.
 *   abi_user_1 FILE KEY.pem */
#include <mlc_1.h>

#include <stdio.h>
#include <string.h>

static int failed(const MlcApi* mlc, int line, int code, MlcError* error) {
  fprintf(stderr, "user_1.c:%d: code %d: %s\n", line, code, mlc->error_text(error));
  mlc->error_release(error);
  return 1;
}
#define EXPECT(condition)                                        \
  do {                                                           \
    if (!(condition)) return failed(mlc, __LINE__, 0, error);    \
  } while (0)
#define CALL(call)                                               \
  do {                                                           \
    const int code = (call);                                     \
    if (code != MLC_OK) return failed(mlc, __LINE__, code, error); \
  } while (0)

static int describe(const MlcApi* mlc, const MlcModel* model) {
  MlcError* error = 0;
  MlcModelInfo info = {sizeof info};
  MlcProgram program = {sizeof program};
  MlcPort port = {sizeof port};
  MlcVariant variant = {sizeof variant};
  MlcAsset asset = {sizeof asset};
  MlcBytes bytes;
  MlcTensor golden;
  uint32_t i, chosen = UINT32_MAX;
  CALL(mlc->model_info(model, &info));
  EXPECT(info.size == sizeof info && strlen(info.root) == 64 && info.num_assets == 1);
  EXPECT(mlc->model_note(model, info.num_notes) == 0);
  CALL(mlc->program(model, 0, &program));
  EXPECT(strcmp(program.name, "main") == 0 && program.num_inputs == 1);
  CALL(mlc->port(model, 0, 0, 0, &port));
  EXPECT(port.dtype == MLC_F32 && port.rank == 1 && port.extents[0] == -1 && port.max[0] == 1024 && port.list_depth == 0);
  for (i = 0; i < info.num_variants; ++i) {
    CALL(mlc->explain(model, i, &variant));
    if (variant.fits != MLC_FITS) {
      MlcClause clause = {sizeof clause};
      CALL(mlc->failing(model, i, 0, &clause));
      EXPECT(strlen(clause.clause) > 0);
    }
  }
  CALL(mlc->choose(model, 0, 0, &chosen, &error));
  EXPECT(chosen < info.num_variants);
  CALL(mlc->asset(model, 0, &asset));
  CALL(mlc->asset_data(model, asset.name, &bytes, &error));
  EXPECT(bytes.bytes == asset.bytes);
  CALL(mlc->golden_inputs(model, 0, &golden, 1, &error));
  EXPECT(golden.dtype == MLC_F32 && golden.rank == 1);
  return 0;
}

static int run(const MlcApi* mlc, MlcSession* session) {
  MlcError* error = 0;
  MlcSessionInfo info = {sizeof info};
  MlcSelftest selftest = {sizeof selftest};
  MlcProfileEntry entry = {sizeof entry};
  MlcRunOptions how = {sizeof how};
  MlcCancel* token = 0;
  MlcBytes saved;
  float x[3] = {1, 2, 3}, y[3];
  const int64_t shape[1] = {3};
  MlcTensor in = mlc_tensor(x, MLC_F32, 1, shape), out = mlc_tensor(y, MLC_F32, 1, shape), unknown;
  CALL(mlc->session_info(session, &info));
  EXPECT(info.threads >= 1 && strlen(info.variant) > 0);
  CALL(mlc->infer_shapes(session, 0, &in, 1, &out, 1, &error));
  EXPECT(out.bytes == sizeof y);
  CALL(mlc->cancel_create(&token, &error));
  how.program = "main";
  how.cancel = token;
  out.data = y;
  CALL(mlc->run(session, &how, &in, 1, &out, 1, &error));
  EXPECT(y[0] == 3 && y[1] == 7 && y[2] == 11);
  mlc->cancel(token);
  EXPECT(mlc->run(session, &how, &in, 1, &out, 1, 0) == MLC_CANCELLED);
  mlc->cancel_release(token);
  unknown = in;
  unknown.name = "unknown";
  EXPECT(mlc->run(session, 0, &unknown, 1, 0, 0, &error) == MLC_INPUT_MISMATCH);
  EXPECT(mlc->error_code(error) == MLC_INPUT_MISMATCH && mlc->error_number(error) == 4001);
  EXPECT(strlen(mlc->error_message(error)) > 0 && mlc->error_fact(error, 0) != 0 && mlc->error_help(error) != 0);
  mlc->error_release(error);
  error = 0;
  CALL(mlc->state_save(session, &saved, &error));
  CALL(mlc->state_restore(session, saved.data, saved.bytes, &error));
  CALL(mlc->state_reset(session, &error));
  CALL(mlc->selftest(session, 0, &selftest, &error));
  EXPECT(selftest.vectors > 0 && selftest.failures == 0);
  EXPECT(mlc->profile(session, 0, 0, &entry) == MLC_OK && entry.runs > 0);
  return 0;
}

int main(int argc, char** argv) {
  const MlcApi* mlc = mlc_get_api(MLC_API_VERSION);
  MlcError* error = 0;
  MlcOpenOptions options = {sizeof options};
  MlcFileInfo file_info = {sizeof file_info};
  MlcSessionOptions session_options = {sizeof session_options};
  MlcFile* file = 0;
  MlcModel* model = 0;
  MlcSession* session = 0;
  MlcPool* pool = 0;
  MlcPoolOptions pool_options = {sizeof pool_options};
  const char* keys[1];
  if (argc != 3 || !mlc || mlc->version < MLC_API_VERSION || mlc->size < sizeof *mlc || !*mlc_version_string()) return 1;
  keys[0] = argv[2];
  options.path = argv[1];
  options.trust_keys = keys;
  options.num_trust_keys = 1;
  CALL(mlc->authenticate(&options, &file, &error));
  CALL(mlc->file_info(file, &file_info));
  EXPECT(file_info.native_code == MLC_NATIVE_CERTAIN && file_info.is_signed);
  CALL(mlc->open_file(file, &model, &error));
  mlc->file_release(file);
  pool_options.threads = 1;
  CALL(mlc->pool_create(&pool_options, &pool, &error));
  session_options.pool = pool;
  session_options.profile = 1;
  if (describe(mlc, model)) return 1;
  CALL(mlc->session_create(model, &session_options, &session, &error));
  if (run(mlc, session)) return 1;
  mlc->session_release(session);
  mlc->pool_release(pool);
  mlc->model_release(model);
  return 0;
}
