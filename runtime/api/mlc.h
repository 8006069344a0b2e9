/* The library's contract, in C. `mlc_get_api` and `mlc_version_string` are the only symbols; everything else is behind
 * the table, whose fields are only ever appended.
 *
 *   const MlcApi* mlc = mlc_get_api(MLC_API_VERSION);   null: the library is older than this header
 *
 * Structs. All but MlcTensor, MlcString, MlcBytes and MlcService, which stay as they are, start with `size`, which the caller sets to
 * sizeof before the call, of structs that it fills and of structs that the library fills. New fields are only appended.
 * The library reads and writes no byte behind `size`: a field that the caller's header does not have yet counts as zero,
 * and of a struct to be filled the fields that the library does not know yet become zero. MLC_USAGE where `size` is
 * smaller than the struct was in version 1.
 *
 * Handles are opaque; release accepts null. Everything else that is null where this header does not allow it gives
 * MLC_USAGE. Functions that return int give 0 or one of the codes below, and, where the last parameter is an MlcError**
 * that is not null, an error to be released. Where there is no memory for an error, code and sentence are there
 * nevertheless: the error is one that the library keeps for this.
 *
 * What must outlive what. A model outlives its sessions. What options point to is copied, but for the memory of
 * MlcOpenOptions, readers, allocators, pools and the `user` of services, which outlive the model or session that was made
 * with them. Strings and bytes handed out belong to the handle they came from and live as long as it does, unless said
 * otherwise.
 *
 * Threads. A model is immutable and may be shared by threads. A session is used by one thread at a time; many sessions of
 * one model share one copy of the weights. Cancel tokens and pools may be used by all threads at once.
 *
 * The library prints nothing, never exits, throws nothing out, installs no signal handlers and reads no environment
 * variables. Memory that cannot be had is MLC_RESOURCE; model and session can be used as before. A container file that is
 * truncated while it is mapped may raise SIGBUS in the reading thread: see MLC_VERIFY_*.
 */
#ifndef MLC_RUNTIME_API_MLC_H
#define MLC_RUNTIME_API_MLC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLC_API_VERSION 1u
#if !defined(_WIN32)
#define MLC_EXPORT __attribute__((visibility("default")))
#elif defined(MLC_BUILDS_LIBRARY)
#define MLC_EXPORT __declspec(dllexport)
#else
#define MLC_EXPORT
#endif

typedef struct MlcFile MlcFile;
typedef struct MlcModel MlcModel;
typedef struct MlcSession MlcSession;
typedef struct MlcError MlcError;
typedef struct MlcCancel MlcCancel;
typedef struct MlcPool MlcPool;
typedef struct MlcMemory MlcMemory;
struct DLManagedTensorVersioned; /* of dlpack.h, which is not needed to read this */

/* The numbers are the exit codes of the tools. */
enum {
  MLC_OK = 0, MLC_NO = 1, MLC_USAGE = 2, MLC_NOT_FOUND = 3, MLC_MALFORMED = 4, MLC_NO_VARIANT = 5,
  MLC_INPUT_MISMATCH = 6, MLC_RESOURCE = 7, MLC_CANCELLED = 8, MLC_UNSIGNED = 10, MLC_UNTRUSTED = 11,
  MLC_BAD_SIGNATURE = 12, MLC_EXPIRED = 13, MLC_UNSUPPORTED = 20, MLC_SELFTEST = 21, MLC_INTERNAL = 70
};

/* Element types; the numbers of base/dtype.h. */
typedef enum MlcDType {
  MLC_NONE = 0, MLC_F64 = 1, MLC_F32 = 2, MLC_F16 = 3, MLC_BF16 = 4, MLC_F8E4M3 = 5, MLC_F8E5M2 = 6, MLC_I64 = 7,
  MLC_I32 = 8, MLC_I16 = 9, MLC_I8 = 10, MLC_I4 = 11, MLC_U64 = 12, MLC_U32 = 13, MLC_U16 = 14, MLC_U8 = 15,
  MLC_U4 = 16, MLC_BOOL = 17, MLC_STR = 18, MLC_F8E4M3FNUZ = 19, MLC_F8E5M2FNUZ = 20,
  MLC_F4E2M1 = 21, MLC_F8E8M0 = 22, MLC_U2 = 23, MLC_I2 = 24,
  MLC_F6E2M3 = 25, MLC_F6E3M2 = 26
} MlcDType;

#define MLC_MAX_RANK 8

/* An element of an array of MLC_STR: bytes, meant to be UTF-8, without a zero at the end. Those of an output belong to
 * the session until its next run, also where the array itself is memory of the caller. */
typedef struct MlcString {
  const char* data;
  uint64_t bytes;
} MlcString;

typedef struct MlcBytes {
  const void* data;
  uint64_t bytes;
} MlcBytes;

/* A dense array in C order, or a list of arrays (of such lists, ...) where a port has a list_depth that is not 0. An
 * optional is a list of at most one item; a list among the inputs that is not given is empty. A map of the model is two
 * ports: NAME.keys, and NAME.values with the value of each key at its place, in each row if there are several maps.
 *
 * An array. As an input it is borrowed for the length of the call, and used without a copy if `data` is
 * 64-byte aligned (and, for the untrusted, a multiple of 64 bytes long). As an output, `data` null asks for memory of the
 * session, valid until its next run; otherwise `bytes` is the capacity. After a run dtype, rank, shape and bytes of outputs
 * say what is there; `shape` belongs to the session.
 *
 * A list has the items `items`, whose list_depth is one less, and no data, rank or shape of its own. Those of an output
 * belong to the session, with all that they point to, until its next run. */
typedef struct MlcTensor {
  const char* name; /* null: by position */
  void* data;
  uint64_t bytes;
  int32_t dtype; /* an MlcDType; what a caller writes may be any number */
  uint32_t rank;
  const int64_t* shape;
  uint32_t list_depth; /* 0: an array */
  uint32_t num_items;
  const struct MlcTensor* items;
  uint64_t reserved[2]; /* 0. An array in an MlcMemory, whose data is null: the address of that, and where in it the array begins */
} MlcTensor;

/* Memory that an application holds beside runs, of libmlrt-gpu (libmlrt answers MLC_UNSUPPORTED): of the device that a session runs (its main program) on, or of the
 * processor where it runs there. Arrays in it (mlc_tensor_in) are inputs and outputs of any session: what one run gives the next
 * one takes without a copy, on that device. Elsewhere, and where a program cannot use them in place (one with control flow; an input whose
 * elements decide shapes; an array that begins at no multiple of what the device wants, 256 at most, or whose last 64 bytes are not all in the
 * memory), they are copied through the host, and MlcSessionInfo.note says so. An output that overlaps another array of its run is refused.
 * `bytes` of an output is its room, as ever; its shape is told after the run, its data is not shown. Memory stays until every run
 * that uses it is over; it may outlive session and model. */
typedef struct MlcMemoryInfo {
  uint32_t size;
  const char* device;        /* "gpu0"; empty: the processor */
  uint64_t bytes;
  void* data;                /* for the processor; null: of a device */
  const char* note;          /* why it is a copy of the array that was imported; empty: it is that array's own memory */
  int32_t is_read_only;
} MlcMemoryInfo;

/* Memory of the application: for arenas, outputs, copies of inputs and of weights, and all else that grows with the model's
 * data. Small things (names, tables of the manifest) come from the heap. `allocate` gives `bytes` at a multiple of
 * `alignment`, a power of two, or null; it and `release` may be called by several threads at once. */
typedef struct MlcAllocator {
  uint32_t size;
  void* (*allocate)(void* user, uint64_t bytes, uint64_t alignment);
  void (*release)(void* user, void* memory, uint64_t bytes, uint64_t alignment);
  void* user;
} MlcAllocator;

/* A container that the application reads: `read` fills `out` with `bytes` bytes from `offset` on and gives 0, or another
 * number, after which what needed them fails with MLC_NOT_FOUND. It may be called by several threads at once, as long as
 * the model lives. Weights are copied, as they are used and verified (MLC_VERIFY_COPY). */
typedef struct MlcReader {
  uint32_t size;
  uint64_t bytes; /* of the container */
  int (*read)(void* user, uint64_t offset, void* out, uint64_t bytes);
  void* user;
} MlcReader;

/* The untrusted. A file whose native code may not run (MlcModelInfo.native_allowed is 0) runs in its portable form, with
 * no services but those of untrusted_services, at most 1.5 s for each run and 192 MiB of memory for each session, unless
 * the session's options say otherwise. spec/untrusted.md has the whole of it. */
#define MLC_NO_LIMIT UINT64_MAX

/* Services. What a model needs that neither its code nor this library has, decoding a picture above all, is done by the
 * application: a function that it registers by name when it opens the model. A variant that needs a service which is not
 * registered does not fit (`explain` says so); a name that no model asks for costs nothing. The services that mlrun
 * offers, and what each promises, are in spec/services.md; an application that registers one of these names promises the same.
 *
 * One call. `options` and the inputs belong to the library and stay for the length of the call; inputs are arrays, and
 * their names and num_items are not set. For each result the function asks `result` for memory, once, with its type and
 * shape, and fills it: 64-byte aligned, for the elements that the shape has. Null: the result is not what the model
 * wants, or there is no memory; the run fails then, and the function returns, with any code. It returns 0 when all
 * results are there, or MLC_INPUT_MISMATCH, MLC_MALFORMED, MLC_RESOURCE or MLC_UNSUPPORTED (anything else counts as
 * MLC_INTERNAL) with a sentence in `message`, which ends with a zero. The run fails with code and sentence.
 *
 * The function is called by the thread that runs the session, and by several at once where there are several sessions.
 * It may cancel the session, and call nothing else of it. It throws nothing and leaves by returning. Inputs may come from
 * a file of a stranger: a function that needs more than `memory_bytes` returns MLC_RESOURCE. */
typedef struct MlcServiceCall {
  uint32_t size;
  uint32_t num_inputs, num_outputs;
  const char* options;
  const MlcTensor* inputs;
  void* (*result)(struct MlcServiceCall* call, uint32_t output, int32_t dtype, uint32_t rank, const int64_t* shape);
  char message[256];
  uint64_t memory_bytes;           /* what the function may take while it runs, with its results: what is left of the
                                      session's limit; a library whose `size` ends before this field sets none */
} MlcServiceCall;

typedef struct MlcService {
  const char* name;                /* "image.decode"; copied */
  int (*run)(void* user, MlcServiceCall* call);
  void* user;                      /* outlives the model */
} MlcService;

/* When and where weights are compared with their digests. LAZY: they are mapped, and compared before their first use; size
 * and time of the file are looked at before and after each run, which fails with E6001 if they have changed. FULL: as LAZY,
 * and everything is compared by `open`. COPY: they are read into memory and compared there; whatever is written to the file
 * after they are used for the first time has no effect. AUTO: COPY where others than this user and root may write to the
 * file or its folder, by mode or as owners, else LAZY. Where the policy has a strict rule for the model, a file that can
 * change is always copied. A file of memory (memfd_create) that is sealed against writing and shrinking cannot: it is
 * mapped. */
enum { MLC_VERIFY_AUTO = 0, MLC_VERIFY_FULL = 1, MLC_VERIFY_COPY = 2, MLC_VERIFY_LAZY = 3 };

typedef struct MlcOpenOptions {
  uint32_t size;
  const char* path;                /* a container file, a folder with its parts (NAME.mlc.000 ...), or: */
  const void* memory;              /* a container in memory that outlives the model and does not change, at a multiple of 256 */
  uint64_t memory_bytes;
  int32_t verify;                  /* MLC_VERIFY_* */
  int32_t allow_unsigned;          /* run native code of a file without a trusted signature */
  const char* const* trust_keys;   /* PEM files of public keys */
  uint32_t num_trust_keys;
  const char* policy;              /* a trust.json; null: /etc/mlc/trust.json, else that of config_folder, if there */
  const char* config_folder;       /* its trust/ and trust.json are read; null: no keys but trust_keys */
  const MlcService* services;      /* that the application offers */
  uint32_t num_services;
  const char* const* untrusted_services; /* names of those of them that an untrusted file may use */
  uint32_t num_untrusted_services;
  int32_t use_fd;                  /* not 0: the container is the open file `fd`, if there is no path and no memory */
  int32_t fd;                      /* stays the caller's, who may close it when the call returns */
  const char* state_folder;        /* where the versions seen are remembered, what was measured of several devices and what failed; null:
                                      nowhere, no version is too old */
  int32_t allow_older;             /* open a version below one that was accepted before */
  const MlcReader* reader;         /* the container, if there is no path, no memory and no descriptor */
  const char* name;                /* of the container in messages, where there is no path; null: what it was opened from */
  const MlcBytes* trust_key_data;  /* public keys in memory, as PEM */
  uint32_t num_trust_key_data;
  const MlcAllocator* allocator;   /* for what the model keeps; null: the library's own */
  /* Devices beside the processor, where the library has loaders for them (libmlrt-gpu). `devices`: "auto" or null, those that are
   * no software; "cpu", none; "gpu", all; or names, "gpu0,cpu". Of a file of several programs each may have its own, "detect=gpu0;read=cpu;auto",
   * of which an entry without a program is for all that have none, "auto" if there is no such entry: a session chooses a variant for each of these
   * by itself then, and runs of a program are on its devices. A section of a pipeline, a program too, has the devices of the models that it is made of,
   * if none are given for itself. MLC_USAGE for a name that the file has no program for, for two models of one section on different devices, and where
   * programs that keep state between runs would have different devices. Drivers crash and hang while they are asked what there is:
   * `probe_program` is a program that does it in a process of its own, called as `PROGRAM probe-child API`, which mlrun
   * answers. Null: no device is known. */
  const char* devices;
  const char* probe_program;
} MlcOpenOptions;

/* Opening in two steps, for applications that handle files of strangers. `authenticate` opens the file, reads trust folder, keys and
 * policy, and checks signatures and digests; the file's bytes are hashed and but for header page and signature block not
 * looked into. It refuses a file whose signer the policy does not accept, and remembers the version of one that it does.
 * `open_file` does the rest and reads nothing more from outside but the file, which is open, and writes nothing. Between
 * the two a process can fork, and the child can give up its privileges before it looks into the file. */
enum { MLC_NATIVE_NEVER = 0, MLC_NATIVE_DEPENDS = 1, MLC_NATIVE_CERTAIN = 2 };

typedef struct MlcFileInfo {
  uint32_t size;
  const char* file;
  int32_t native_code;             /* may it run? NEVER and CERTAIN: so it is, unless `open_file` refuses the file;
                                      DEPENDS: on what the file says of itself, open_file decides */
  int32_t is_signed;               /* by some key, trusted or not */
} MlcFileInfo;

typedef struct MlcModelInfo {
  uint32_t size;
  const char* file;
  const char* id;                  /* org/name */
  uint64_t version;
  const char* root;                /* 64 hex digits that identify the content */
  const char* trust;               /* one sentence: who signed it, or why no signer is trusted */
  const char* trust_help;          /* the command that would trust the signer, may be empty */
  int32_t native_allowed;
  int32_t is_signed;
  uint64_t file_bytes;
  uint32_t num_programs, num_variants, num_golden, num_notes, num_assets;
  int32_t is_copied;               /* weights are copied into memory as they are verified; else they are mapped */
} MlcModelInfo;

typedef struct MlcProgram {
  uint32_t size;
  const char* name;
  int32_t is_default;
  uint32_t num_inputs, num_outputs;
  uint32_t num_states;             /* arrays that it keeps between the runs of a session */
} MlcProgram;

typedef struct MlcPort {
  uint32_t size;
  const char* name;
  MlcDType dtype;
  uint32_t rank;
  int64_t extents[MLC_MAX_RANK];      /* -1 where it depends on the input */
  const char* dims[MLC_MAX_RANK];     /* the name or expression of such an extent, else empty */
  int64_t min[MLC_MAX_RANK], max[MLC_MAX_RANK]; /* of a named extent; -1 where it follows from others */
  uint32_t list_depth;                /* not 0: a list of arrays, or of such lists; they may differ in shape */
} MlcPort;

/* A file inside of the container: labels, a pipeline. */
typedef struct MlcAsset {
  uint32_t size;
  const char* name;
  const char* media_type;
  uint64_t bytes;
} MlcAsset;

enum { MLC_FITS = 0, MLC_FITS_NOT = 1, MLC_FITS_UNKNOWN = 2 };

typedef struct MlcVariant {
  uint32_t size;
  const char* name;
  const char* target;
  const char* family;
  int32_t fits;              /* MLC_FITS, ... */
  const char* reason;        /* every failing clause with its source; empty if it fits */
  uint64_t estimate_ns;      /* 0: none */
  uint32_t num_failing;
  const char* device;        /* that it fits on, "gpu0"; empty: the processor, or it does not fit */
  uint64_t measured_ns;      /* of a run of the main program, by mlrun tune on this machine; 0: not measured. Of others: choose_for */
  int32_t is_remembered;     /* taken first since it was the fastest then */
  uint32_t rank;             /* 0: taken first, 1: next, ...; UINT32_MAX: it does not fit */
} MlcVariant;

/* A device of this machine, asked for if the container has variants for devices whose code may run. */
typedef struct MlcDevice {
  uint32_t size;
  const char* name;          /* "gpu0"; a card that both APIs show is there twice, under one name */
  const char* api;           /* "cuda" or "vulkan" */
  const char* title;
  const char* driver;
  int32_t is_software;       /* the processor itself does the work: used where it is named */
  uint64_t memory_bytes;
} MlcDevice;

/* The variant that a session would try first for a program. */
typedef struct MlcChoice {
  uint32_t size;
  uint32_t variant;
  const char* name;          /* of the variant */
  const char* device;        /* "gpu0"; empty: the processor */
  uint64_t measured_ns;      /* of a run of the program, by mlrun tune on this machine; 0: not measured */
  int32_t is_remembered;     /* taken first since it was the fastest then */
} MlcChoice;

typedef struct MlcClause {
  uint32_t size;
  const char* clause;
  const char* answer;        /* "no", "unknown" */
  const char* source;
} MlcClause;

/* Threads that sessions share. A session needs a number of them for the length of a run; runs that find too few of them idle
 * wait, asleep, in the order in which they came (but short runs of another session may go on for a millisecond). So sessions of
 * one pool never compete for a CPU, however many there are. The thread that calls `run` is one of those that work: a run of one
 * thread waits for no other. Nothing is held while a service is called, which may run other sessions; functions of readers and
 * allocators run none. Threads are started when a run first needs them. In the child of a fork pools and sessions can be used
 * as before, but for sessions that another thread was running at that moment: those are left alone there. */
typedef struct MlcPoolOptions {
  uint32_t size;
  uint32_t threads;          /* that work at one time; 0: one per usable physical core */
  const int32_t* cpus;       /* that they may run on, of those that the process may use; null: all */
  uint32_t num_cpus;
  int32_t pin;               /* each thread stays on a CPU of its own. 0: they are left to the scheduler, but for runs that
                                need all threads of a pool that has as many as there are usable cores, if the session's
                                options say `pin_caller` */
} MlcPoolOptions;

typedef struct MlcSessionOptions {
  uint32_t size;
  const char* variant;       /* exactly this one; null: the best that fits */
  const char* require;       /* "native", or a variant, target or family; null: anything */
  uint32_t threads;          /* that work on a run, with the caller's; 0: all of `pool`, or as `mlrun probe` says; at most the pool's */
  int32_t pin_caller;        /* where the pool's threads stay on a CPU of their own, those that call `run` do, too */
  int32_t profile;           /* measure every instruction */
  /* Of each run, on the clock: beyond it the run ends with MLC_CANCELLED and E6004. 0: 1.5 s for the untrusted, none for
   * others. For the untrusted a limit on work follows from it (E6005, MLC_RESOURCE). */
  uint64_t time_limit_ns;
  /* Bytes that the session may hold: arena, outputs, values, copies of inputs (E6006, MLC_RESOURCE). 0: 192 MiB for the
   * untrusted, else most of the memory that is free when the session is created. */
  uint64_t memory_limit;
  MlcPool* pool;             /* null: the one that all sessions of the process share which name none */
  const MlcAllocator* allocator; /* for what the session holds; null: the library's own */
  /* Where the model may use several devices, the processor being one of them: runs may be divided among them, at the cuts that the
   * file has. `objective`: "latency", the fastest way for one run that is found in a fifth of a second of measuring, which may also
   * divide the rows of a batch; "memory", as few devices as hold the model, the processor last; "throughput", the most runs of several
   * sessions at once: sessions of a model with equal options share the devices then, each of which does one run, or one stage of
   * one, at a time, and a run waits for the device that is expected to be done with it first. `placement`: what runs where, "main.3=gpu0,main.4=cpu"; without an objective the
   * rest runs on the first device. Both null: runs are on one device. MLC_USAGE where no device is used. */
  const char* objective;
  const char* placement;
} MlcSessionOptions;

/* Of one run. `cancel` ends it, from any thread, with MLC_CANCELLED: within 100 ms in portable code and in the steps of
 * programs, but only between the launches of native kernels, as time limits too. A token that was cancelled stays so: a run
 * that starts with it ends at once. One token may be given to any number of runs; it is released when they are over. */
typedef struct MlcRunOptions {
  uint32_t size;
  const char* program;       /* null: `main`, or the container's default one if there is none of this name */
  MlcCancel* cancel;         /* null: the run cannot be cancelled */
  uint64_t time_limit_ns;    /* instead of the session's; 0: the session's */
} MlcRunOptions;

/* The end of a run that went on by itself: the code, and the error that belongs to the function, which releases it. It is
 * called once, by a thread of the library, when nothing of the run is in use any more: from then on, and also within, the
 * session may be used again. It throws nothing. */
typedef void (*MlcDone)(void* user, int code, MlcError* error);

typedef struct MlcSessionInfo {
  uint32_t size;
  const char* variant;
  int32_t is_portable;
  uint32_t threads;
  uint64_t arena_bytes;
  const char* note;          /* why better variants were not taken although they fit, and what was done on the processor since
                                the device could not; empty: nothing of the kind. Runs may add to it: valid until the next one */
  const char* device;        /* that runs are on, "gpu0"; empty: the processor */
} MlcSessionInfo;

/* Some segments of the plans of a session on several devices, and where they run. */
typedef struct MlcStage {
  uint32_t size;
  const char* segments;      /* "main.3", "main.3 to main.7" */
  const char* device;        /* "gpu0"; "cpu" is the processor */
  const char* variant;
  uint64_t estimate_ns;      /* with its copies between host and device; 0: not measured */
  uint64_t copies_ns;        /* of these alone */
  const char* reason;
  const char* mode;          /* what is done with the devices: "one device", "latency path", "split batch", "replicate", "pipeline" or
                                "placed". In "split batch" and "replicate" there is a stage for each device, with the same segments */
} MlcStage;

typedef struct MlcSelftest {
  uint32_t size;
  uint32_t vectors, failures;
  double max_abs, max_rel;   /* largest difference, and relative to the largest expected value of its output */
  const char* text;          /* the first failure; valid until the session's next selftest */
} MlcSelftest;

#define MLC_NOT_KNOWN UINT64_MAX

typedef struct MlcProfileEntry {
  uint32_t size;
  const char* name;
  uint64_t ns, runs;         /* on the thread of the caller, until all threads have met; all runs together */
  const char* function;      /* of the plan, in which the instruction stands */
  uint64_t waited_ns;        /* of all runs and threads together: for others, each with its own part done */
  /* What it does for the shapes of the last run, as the file says of itself; MLC_NOT_KNOWN where it does not. */
  uint64_t operations, bytes_read, bytes_written;
  int32_t of_bytes;          /* the operations are mostly products of 8 bits */
  int32_t is_launch;         /* of `kernel`; else a copy */
  uint32_t kernel;           /* its number in the variant's code */
  /* How it was cut in the last run: into `tiles` parts, which `threads` shared; along each of `num_cuts` axes there are
   * `units`, of which a part has `chunks`. */
  uint32_t threads;
  uint64_t tiles;
  uint32_t num_cuts;
  uint64_t units[3], chunks[3];
  const char* device;        /* that did it, "gpu0"; empty or "cpu": the processor */
} MlcProfileEntry;

/* A thread at an instruction of the last run, in nanoseconds of one clock. All 0: it had no part in it. */
typedef struct MlcProfileMoments {
  uint32_t size;
  uint64_t begin, done, left; /* its own part is done; it has met the others */
} MlcProfileMoments;

typedef struct MlcApi {
  uint32_t version;
  uint32_t size;

  int (*open)(const MlcOpenOptions* options, MlcModel** out, MlcError** error);
  void (*model_release)(MlcModel* model);
  int (*model_info)(const MlcModel* model, MlcModelInfo* out);
  const char* (*model_note)(const MlcModel* model, uint32_t index); /* null behind the last */
  int (*program)(const MlcModel* model, uint32_t index, MlcProgram* out);
  int (*port)(const MlcModel* model, uint32_t program, int32_t is_output, uint32_t index, MlcPort* out);
  int (*explain)(const MlcModel* model, uint32_t variant, MlcVariant* out);
  int (*failing)(const MlcModel* model, uint32_t variant, uint32_t index, MlcClause* out);
  /* The variant that a session with these wishes, each of which may be null, would try first. */
  int (*choose)(const MlcModel* model, const char* variant, const char* require, uint32_t* out, MlcError** error);
  int (*asset)(const MlcModel* model, uint32_t index, MlcAsset* out);
  /* The bytes of an asset; valid as long as the model. */
  int (*asset_data)(const MlcModel* model, const char* name, MlcBytes* out, MlcError** error);
  /* The inputs of the first golden vector of a program; valid as long as the model. `count` is that of the program.
   * MLC_NOT_FOUND if there is none, or lists are among them. */
  int (*golden_inputs)(const MlcModel* model, uint32_t program, MlcTensor* inputs, uint32_t count, MlcError** error);

  /* Opening in two steps, see MlcFileInfo. open_file uses the file up, which is still to be released. */
  int (*authenticate)(const MlcOpenOptions* options, MlcFile** out, MlcError** error);
  int (*file_info)(const MlcFile* file, MlcFileInfo* out);
  int (*open_file)(MlcFile* file, MlcModel** out, MlcError** error);
  void (*file_release)(MlcFile* file);

  /* Options may be null. */
  int (*pool_create)(const MlcPoolOptions* options, MlcPool** out, MlcError** error);
  void (*pool_release)(MlcPool* pool);
  int (*session_create)(const MlcModel* model, const MlcSessionOptions* options, MlcSession** out, MlcError** error);
  /* Waits for the run of run_async or run_start, if one goes on. Not from within its MlcDone. */
  void (*session_release)(MlcSession* session);
  int (*session_info)(const MlcSession* session, MlcSessionInfo* out);

  int (*cancel_create)(MlcCancel** out, MlcError** error);
  void (*cancel)(MlcCancel* token);
  void (*cancel_release)(MlcCancel* token);

  /* Options may be null; inputs and outputs may where their number is 0. */
  int (*run)(MlcSession* session, const MlcRunOptions* options, const MlcTensor* inputs, uint32_t num_inputs,
             MlcTensor* outputs, uint32_t num_outputs, MlcError** error);
  /* As run, on a thread of the library. Gives an error only where nothing was started; `done` is not called then. The
   * tensors, and what they point to, stay until `done` is called, which finds the outputs set; options are copied. */
  int (*run_async)(MlcSession* session, const MlcRunOptions* options, const MlcTensor* inputs, uint32_t num_inputs,
                   MlcTensor* outputs, uint32_t num_outputs, MlcDone done, void* user, MlcError** error);
  /* Sets dtype, rank, shape and bytes of the outputs for inputs of these types and shapes, without running. Data is
   * looked at only where shapes depend on it. `program` as in MlcRunOptions. MLC_UNSUPPORTED where only a run tells. */
  int (*infer_shapes)(MlcSession* session, const char* program, const MlcTensor* inputs, uint32_t num_inputs,
                      MlcTensor* outputs, uint32_t num_outputs, MlcError** error);

  /* State that the model keeps between runs: all of it to its first values; as bytes, valid until the session is used
   * again; and from such bytes, of a session of any variant of the same container, else MLC_INPUT_MISMATCH. Bytes that are
   * damaged are MLC_MALFORMED, and the state stays as it was. spec/state.md has the format. MLC_UNSUPPORTED: strings. */
  int (*state_reset)(MlcSession* session, MlcError** error);
  int (*state_save)(MlcSession* session, MlcBytes* out, MlcError** error);
  int (*state_restore)(MlcSession* session, const void* data, uint64_t bytes, MlcError** error);

  /* Runs the golden vector of this name; null: every one. MLC_SELFTEST if one differs by more than its tolerance;
   * MLC_NOT_FOUND if there is none of the name. */
  int (*selftest)(MlcSession* session, const char* vector, MlcSelftest* out, MlcError** error);
  /* One instruction of a program, after runs with `profile`. MLC_NOT_FOUND behind the last. `program` may be null. */
  int (*profile)(const MlcSession* session, const char* program, uint32_t index, MlcProfileEntry* out);

  /* Of null: MLC_OK, 0 and empty texts. */
  int (*error_code)(const MlcError* error);
  const char* (*error_text)(const MlcError* error);    /* "error[E4001]: ..." with its facts and help, several lines */
  const char* (*error_message)(const MlcError* error); /* the sentence alone */
  int (*error_number)(const MlcError* error);          /* of "E4001", 0: none */
  const char* (*error_fact)(const MlcError* error, uint32_t index); /* null behind the last */
  const char* (*error_help)(const MlcError* error);    /* may be empty */
  void (*error_release)(MlcError* error);

  /* What thread `thread` of the session did at an instruction, numbered as by `profile`, in the last run. MLC_NOT_FOUND behind the
   * last of either. */
  int (*profile_moments)(const MlcSession* session, const char* program, uint32_t index, uint32_t thread, MlcProfileMoments* out);

  /* MLC_NOT_FOUND behind the last. */
  int (*device)(const MlcModel* model, uint32_t index, MlcDevice* out);
  /* How runs of a session on several devices are divided; MLC_NOT_FOUND behind the last, and where a session has one device. */
  int (*stage)(const MlcSession* session, uint32_t index, MlcStage* out);

  /* run_async without a function to be called: the caller asks for its end. Until run_wait has told that, the session is used
   * for nothing else but these two and its release, and what run_async says of tensors holds. On a device a run of a program
   * without control flow is submitted by run_start and goes on without a thread; others go on on a thread of the library. */
  int (*run_start)(MlcSession* session, const MlcRunOptions* options, const MlcTensor* inputs, uint32_t num_inputs,
                   MlcTensor* outputs, uint32_t num_outputs, MlcError** error);
  /* Waits for the end so long at most, UINT64_MAX: as long as it takes. MLC_NO, without an error: it goes on. Everything else is the end of
   * the run as `run` would give it, told once. MLC_USAGE if there is none. What a device leaves to the processor is done in here. */
  int (*run_wait)(MlcSession* session, uint64_t timeout_ns, MlcError** error);
  /* 1: no run goes on, so that run_wait would not wait; 0: one does. */
  int (*run_done)(MlcSession* session);

  /* Memory where this session runs; what is in it is not said. */
  int (*memory_create)(MlcSession* session, uint64_t bytes, MlcMemory** out, MlcError** error);
  void (*memory_release)(MlcMemory* memory);
  /* Texts belong to the memory. */
  int (*memory_info)(const MlcMemory* memory, MlcMemoryInfo* out);
  /* The bytes of an array to those of another, which has room for them: both are stored in memory of the caller or in an MlcMemory. Waits until it
   * is done. Types and shapes are not looked at. Memory may be used by several threads at once, but its bytes not while one writes them. */
  int (*tensor_copy)(const MlcTensor* from, const MlcTensor* to, MlcError** error);
  /* An array of DLPack 1.x for this session: of the CPU, or of the device that it runs on (CUDA; of Vulkan those that tensor_to_dlpack made). It is
   * looked at before anything is believed: type, axes, extents, strides, size, and what the driver knows of its address. `tensor` becomes an
   * array in `out`, with a shape that belongs to it; the array of DLPack belongs to `out` then, else to the caller as before. What wrote it is over;
   * of CUDA the default stream of the process is waited for. MlcMemoryInfo.note: it cannot be used where it is, and is a copy as of now. */
  int (*tensor_from_dlpack)(MlcSession* session, struct DLManagedTensorVersioned* array, MlcTensor* tensor, MlcMemory** out, MlcError** error);
  /* The reverse, of an array in an MlcMemory: shares the memory, which stays until the array's deleter was called. */
  int (*tensor_to_dlpack)(const MlcTensor* tensor, struct DLManagedTensorVersioned** out, MlcError** error);

  /* What session_info and choose say of the main program, of each one: they differ where devices were given by program
   * (MlcOpenOptions), and where a variant has code for some programs only. The note of session_info is that of all programs.
   * MLC_NO_VARIANT for a program that the variant which the session was asked for has no code for. */
  int (*program_info)(const MlcSession* session, uint32_t program, MlcSessionInfo* out);
  int (*choose_for)(const MlcModel* model, uint32_t program, const char* variant, const char* require, MlcChoice* out, MlcError** error);
} MlcApi;

MLC_EXPORT const MlcApi* mlc_get_api(uint32_t version);
MLC_EXPORT const char* mlc_version_string(void);

static inline uint64_t mlc_dtype_bytes(int32_t t) {
  switch (t) {
    case MLC_F64: case MLC_I64: case MLC_U64: return 8;
    case MLC_F32: case MLC_I32: case MLC_U32: return 4;
    case MLC_F16: case MLC_BF16: case MLC_I16: case MLC_U16: return 2;
    case MLC_STR: return sizeof(MlcString);
    case MLC_NONE: return 0;
    default: return 1;
  }
}

/* `shape` is borrowed. */
static inline MlcTensor mlc_tensor(void* data, int32_t dtype, uint32_t rank, const int64_t* shape) {
  MlcTensor t = {0, data, mlc_dtype_bytes(dtype), dtype, rank, shape, 0, 0, 0, {0, 0}};
  for (uint32_t i = 0; i < rank; ++i) t.bytes *= (uint64_t)(shape[i] < 0 ? 0 : shape[i]);
  return t;
}

/* An array in memory, from `offset` on. */
static inline MlcTensor mlc_tensor_in(const MlcMemory* memory, uint64_t offset, int32_t dtype, uint32_t rank, const int64_t* shape) {
  MlcTensor t = mlc_tensor(0, dtype, rank, shape);
  t.reserved[0] = (uint64_t)(uintptr_t)memory;
  t.reserved[1] = offset;
  return t;
}

#ifdef __cplusplus
}
#endif
#endif
