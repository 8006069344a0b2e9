// The functions of the table of mlc.h, which says what each does, by the file that has them. Each turns options and tensors
// into the types of the C++ side and a Status into a code and an MlcError; nothing else happens there.
#pragma once

#include "runtime/api/mlc.h"

namespace mlc::api::table {

// open.cpp
int open(const MlcOpenOptions* options, MlcModel** out, MlcError** error);
int authenticate(const MlcOpenOptions* options, MlcFile** out, MlcError** error);
int file_info(const MlcFile* file, MlcFileInfo* out);
int open_file(MlcFile* file, MlcModel** out, MlcError** error);
void file_release(MlcFile* file);

// describe.cpp
void model_release(MlcModel* model);
int model_info(const MlcModel* model, MlcModelInfo* out);
const char* model_note(const MlcModel* model, uint32_t index);
int program(const MlcModel* model, uint32_t index, MlcProgram* out);
int port(const MlcModel* model, uint32_t program, int32_t is_output, uint32_t index, MlcPort* out);
int explain(const MlcModel* model, uint32_t variant, MlcVariant* out);
int failing(const MlcModel* model, uint32_t variant, uint32_t index, MlcClause* out);
int choose(const MlcModel* model, const char* variant, const char* require, uint32_t* out, MlcError** error);
int choose_for(const MlcModel* model, uint32_t program, const char* variant, const char* require, MlcChoice* out, MlcError** error);
int device(const MlcModel* model, uint32_t index, MlcDevice* out);
int asset(const MlcModel* model, uint32_t index, MlcAsset* out);
int asset_data(const MlcModel* model, const char* name, MlcBytes* out, MlcError** error);
int golden_inputs(const MlcModel* model, uint32_t program, MlcTensor* inputs, uint32_t count, MlcError** error);

// pool.cpp
int pool_create(const MlcPoolOptions* options, MlcPool** out, MlcError** error);
void pool_release(MlcPool* pool);

// sessions.cpp
int session_create(const MlcModel* model, const MlcSessionOptions* options, MlcSession** out, MlcError** error);
void session_release(MlcSession* session);
int session_info(const MlcSession* session, MlcSessionInfo* out);
int program_info(const MlcSession* session, uint32_t program, MlcSessionInfo* out);
int stage(const MlcSession* session, uint32_t index, MlcStage* out);
int selftest(MlcSession* session, const char* vector, MlcSelftest* out, MlcError** error);
int profile(const MlcSession* session, const char* program, uint32_t index, MlcProfileEntry* out);
int profile_moments(const MlcSession* session, const char* program, uint32_t index, uint32_t thread, MlcProfileMoments* out);

// cancel.cpp
int cancel_create(MlcCancel** out, MlcError** error);
void cancel(MlcCancel* token);
void cancel_release(MlcCancel* token);

// run.cpp
int run(MlcSession* session, const MlcRunOptions* options, const MlcTensor* inputs, uint32_t num_inputs,
        MlcTensor* outputs, uint32_t num_outputs, MlcError** error);
int infer_shapes(MlcSession* session, const char* program, const MlcTensor* inputs, uint32_t num_inputs,
                 MlcTensor* outputs, uint32_t num_outputs, MlcError** error);

// async.cpp
int run_async(MlcSession* session, const MlcRunOptions* options, const MlcTensor* inputs, uint32_t num_inputs,
              MlcTensor* outputs, uint32_t num_outputs, MlcDone done, void* user, MlcError** error);
int run_start(MlcSession* session, const MlcRunOptions* options, const MlcTensor* inputs, uint32_t num_inputs,
              MlcTensor* outputs, uint32_t num_outputs, MlcError** error);
int run_wait(MlcSession* session, uint64_t timeout_ns, MlcError** error);
int run_done(MlcSession* session);

// memory.cpp, of libmlrt-gpu
int memory_create(MlcSession* session, uint64_t bytes, MlcMemory** out, MlcError** error);
void memory_release(MlcMemory* memory);
int memory_info(const MlcMemory* memory, MlcMemoryInfo* out);
int tensor_copy(const MlcTensor* from, const MlcTensor* to, MlcError** error);
// dlpack.cpp, of libmlrt-gpu
int tensor_from_dlpack(MlcSession* session, DLManagedTensorVersioned* array, MlcTensor* tensor, MlcMemory** memory, MlcError** error);
int tensor_to_dlpack(const MlcTensor* tensor, DLManagedTensorVersioned** out, MlcError** error);

// state.cpp
int state_reset(MlcSession* session, MlcError** error);
int state_save(MlcSession* session, MlcBytes* out, MlcError** error);
int state_restore(MlcSession* session, const void* data, uint64_t bytes, MlcError** error);

// errors.cpp
int error_code(const MlcError* error);
const char* error_text(const MlcError* error);
const char* error_message(const MlcError* error);
int error_number(const MlcError* error);
const char* error_fact(const MlcError* error, uint32_t index);
const char* error_help(const MlcError* error);
void error_release(MlcError* error);

}  // namespace mlc::api::table
