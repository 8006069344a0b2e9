/* Pipelines, in C: files, bytes or arrays in, labelled answers out, through the pipeline.json of a container. The
 * library decodes what the user gives, runs the model with `mlc.h`, and reads classes and text out of the results.
 * `mlio_get_api` is the only symbol; everything else is behind the table, whose fields are only ever appended.
 *
 *   const MlioApi* mlio = mlio_get_api(MLIO_API_VERSION);  null: the library is older than this header
 *
 * The rules of mlc.h hold here too: structs that start with `size`, handles that are opaque, codes, what null means, and
 * that the library prints nothing, never exits, throws nothing out and reads no environment variables. Errors are of a type
 * of their own. The table of mlc.h that `open` is given, and the model, outlive the pipeline.
 *
 * Threads. A pipeline is immutable and may be shared by threads, each with a session of its own. Answers belong to
 * the caller of the run. */
#ifndef MLC_RUNTIME_MLIO_MLIO_H
#define MLC_RUNTIME_MLIO_MLIO_H

#include "runtime/api/mlc.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLIO_API_VERSION 1u

typedef struct MlioPipeline MlioPipeline;
typedef struct MlioAnswers MlioAnswers;
typedef struct MlioError MlioError;
typedef struct MlioStream MlioStream;

enum { MLIO_ARRAY = 0, MLIO_CLASSES = 1, MLIO_TEXT = 2, MLIO_BOXES = 3, MLIO_IMAGE = 4, MLIO_SOUND = 5 };

typedef struct MlioPipelineInfo {
  uint32_t size;
  const char* name;         /* "default" where pipeline.json holds one pipeline without a name */
  uint32_t program;         /* index of the program that it runs */
  uint32_t num_inputs, num_outputs;
} MlioPipelineInfo;

typedef struct MlioInput {
  uint32_t size;
  const char* name;
  int32_t is_array;         /* takes an array, or a file of one (.npy, .npz); else a file of one of these types: */
  uint32_t num_media_types;
  const char* const* media_types; /* "image/png", ... */
  uint64_t first_bytes, last_bytes; /* of "application/octet-stream": bytes at the ends of a file that are read, others may be left
                               out (MlioGiven); else 0 */
  uint32_t rate;            /* of a sound: samples per second that a file must have, and an array in its place has; else 0 */
} MlioInput;

typedef struct MlioOutput {
  uint32_t size;
  const char* name;
  int32_t kind;             /* MLIO_ARRAY, ... */
} MlioOutput;

/* An input as the user has it: an array, or the bytes of a file, whose kind its first bytes tell. In place of the file of a
 * picture, the array that its decoder makes (spec/pipeline.md). In place of the file of a sound, its samples: MLC_F32, MLC_F64 or MLC_I16 (a
 * share of 2^15) [samples] or [samples, channels], at the rate of the input (MlioInput): another one is the caller's to change. Where texts are taken (media type text/plain): an array of
 * MLC_STR, of rank 0 or 1, or the bytes of one text, UTF-8. Where a file of any kind is taken (application/octet-stream): its bytes,
 * whatever they are. Stays as it is. */
typedef struct MlioGiven {
  const char* name;         /* null: the only input that no other one is; also that of an .npz of several arrays, which have names */
  const MlcTensor* tensor;  /* an array without lists; null: `file` */
  MlcBytes file;
  uint64_t gap_at, gap;     /* so many bytes of the file, from `gap_at` on, are not in `file`: the pipeline needs the first and the
                               last ones only (MlioInput); 0: all are there */
} MlioGiven;

typedef struct MlioRunOptions {
  uint32_t size;
  const MlcRunOptions* run; /* `program` of it is not looked at; null: no wishes */
  uint32_t top;             /* this many classes in place of what the pipeline says; 0: what it says */
} MlioRunOptions;

typedef struct MlioAnswersInfo {
  uint32_t size;
  uint32_t num_answers;
  uint64_t before_ns, run_ns, after_ns; /* decoding; the session's run; reading the results */
  uint64_t first_sample;    /* of the chunk, where a stream gave it: context left out */
} MlioAnswersInfo;

typedef struct MlioAnswer {
  uint32_t size;
  const char* name;
  int32_t kind;
  uint32_t num_rows;        /* of classes: rows of scores; of text: lines; of boxes: boxes */
  MlcTensor array;          /* MLIO_ARRAY: its data belongs to the session until its next run, but for strings, which live
                               as long as the answers */
} MlioAnswer;

typedef struct MlioClass {
  uint32_t size;
  int64_t index;
  double score;
  MlcString label;          /* empty without labels */
} MlioClass;

typedef struct MlioLine {
  uint32_t size;
  MlcString text;           /* UTF-8 */
  double score;             /* mean over the characters, 0 for no text and where a text has no score (detokenize) */
} MlioLine;

/* A detection, in pixels of the picture that the pipeline says. Corners may lie outside of it, and be infinite or no numbers. */
typedef struct MlioBox {
  uint32_t size;
  float x1, y1, x2, y2;
  int64_t index;            /* of the class */
  double score;
  MlcString label;          /* empty without labels */
} MlioBox;

/* What a pipeline with a stream cuts its input into (spec/pipeline.md, "Streams"). */
typedef struct MlioStreamInfo {
  uint32_t size;
  const char* input;        /* name of the sound */
  uint32_t rate;            /* samples per second that it has */
  int32_t pads;             /* a last chunk that is not whole has zeros behind it; 0: it is dropped */
  uint64_t hop, context;    /* samples of a chunk; those before it that stand in front */
} MlioStreamInfo;

/* A picture as the bytes of a file, which live as long as the answers. */
typedef struct MlioImage {
  uint32_t size;
  uint32_t height, width;
  const char* media_type;   /* "image/png" */
  MlcBytes file;
} MlioImage;

/* A sound as the bytes of a file, which live as long as the answers. */
typedef struct MlioSound {
  uint32_t size;
  uint32_t rate, channels;
  uint64_t samples;         /* of each channel */
  const char* media_type;   /* "audio/wav" */
  MlcBytes file;
} MlioSound;

typedef struct MlioApi {
  uint32_t version;
  uint32_t size;

  /* What this library can do for models: for MlcOpenOptions.services. They live as long as the process. */
  const MlcService* (*services)(uint32_t* count);

  /* The pipeline of this name; null: the one of the default program. MLC_NOT_FOUND if the container has no pipeline. */
  int (*open)(const MlcApi* mlc, const MlcModel* model, const char* name, MlioPipeline** out, MlioError** error);
  void (*release)(MlioPipeline* pipeline);
  int (*info)(const MlioPipeline* pipeline, MlioPipelineInfo* out);
  int (*input)(const MlioPipeline* pipeline, uint32_t index, MlioInput* out);
  int (*output)(const MlioPipeline* pipeline, uint32_t index, MlioOutput* out);

  /* Runs it on a session of the same model. Options may be null. All inputs that do not fit are reported at once. */
  int (*run)(const MlioPipeline* pipeline, MlcSession* session, const MlioRunOptions* options, const MlioGiven* inputs,
             uint32_t num_inputs, MlioAnswers** out, MlioError** error);
  void (*answers_release)(MlioAnswers* answers);
  int (*answers_info)(const MlioAnswers* answers, MlioAnswersInfo* out);
  /* In the order of the file's outputs. Names and texts live as long as the answers. */
  int (*answer)(const MlioAnswers* answers, uint32_t index, MlioAnswer* out);
  /* How many classes a row has; 0 where there is no such row. Best first. */
  uint32_t (*num_classes)(const MlioAnswers* answers, uint32_t answer, uint32_t row);
  int (*class_at)(const MlioAnswers* answers, uint32_t answer, uint32_t row, uint32_t index, MlioClass* out);
  int (*line)(const MlioAnswers* answers, uint32_t answer, uint32_t index, MlioLine* out);

  /* As those of mlc.h. */
  int (*error_code)(const MlioError* error);
  const char* (*error_text)(const MlioError* error);
  const char* (*error_message)(const MlioError* error);
  int (*error_number)(const MlioError* error);
  const char* (*error_fact)(const MlioError* error, uint32_t index);
  const char* (*error_help)(const MlioError* error);
  void (*error_release)(MlioError* error);

  /* Of an answer MLIO_BOXES, best first; of one MLIO_IMAGE. */
  int (*box)(const MlioAnswers* answers, uint32_t answer, uint32_t index, MlioBox* out);
  int (*image)(const MlioAnswers* answers, uint32_t answer, MlioImage* out);
  /* Of one MLIO_SOUND. */
  int (*sound)(const MlioAnswers* answers, uint32_t answer, MlioSound* out);

  /* A sound that comes in pieces, through a pipeline with a stream: what is carried from one chunk to the next stays in the library.
   * `run` takes the whole sound in place of that. Of a sound among the answers each chunk has its part, a file of its own; `run` gives one
   * file. MLC_NOT_FOUND where the pipeline has none. */
  int (*stream_info)(const MlioPipeline* pipeline, MlioStreamInfo* out);
  /* Used by one thread at a time, which runs nothing else on the session meanwhile. Pipeline and session outlive it. */
  int (*stream_open)(const MlioPipeline* pipeline, MlcSession* session, MlioStream** out, MlioError** error);
  void (*stream_release)(MlioStream* stream);
  /* Any number of samples, of the rate of the stream and one channel; copied. MLC_USAGE behind stream_finish. */
  int (*stream_push)(MlioStream* stream, const float* samples, uint64_t count, MlioError** error);
  /* No more come: what is no whole chunk is the last one, or is dropped. */
  int (*stream_finish)(MlioStream* stream);
  /* Runs the next chunk; null where none is complete. After a failure it is the next one again. Options may be null. Arrays of
   * answers are valid until the next call. */
  int (*stream_next)(MlioStream* stream, const MlioRunOptions* options, MlioAnswers** out, MlioError** error);
  /* Another sound: as the stream was opened. */
  int (*stream_reset)(MlioStream* stream);
  /* What all chunks are given beside the sound, where the pipeline has such inputs (the number of a language, say): all of them at once, before
   * the first chunk. Copied, and kept when the stream is reset; then others may be given. */
  int (*stream_give)(MlioStream* stream, const MlioGiven* inputs, uint32_t num_inputs, MlioError** error);
} MlioApi;

MLC_EXPORT const MlioApi* mlio_get_api(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif
