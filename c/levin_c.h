#pragma once

/* The C interface of levin: a Session that a program in C, Fortran, Python or another language drives (docs/c-api.md).

     levin_session* session = NULL;
     levin_batch* batch = NULL;
     levin_step_result result;
     if (levin_session_open("run.yaml", NULL, 0, &session) != LEVIN_OK) return fail(levin_last_error());
     levin_batch_create(&batch);
     levin_batch_set(batch, "features", x, LEVIN_FLOAT32, 2, shape, NULL);
     levin_session_begin(session, NULL);
     while (solver_runs()) levin_session_step(session, batch, &result);
     levin_session_end(session);

   Functions that can fail return a status; levin_last_error() has the text. No C++ exception passes through. What is declared
   here stays as it is: later versions add functions and status codes, and change levin_c_abi_version() if they ever remove
   some.

   A session is for the thread that began it, but for levin_session_stop(). A batch is for one thread at a time. Texts are
   UTF-8, and those that come from levin belong to it. Every rank of a run makes the same calls (docs/session.md). */
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LEVIN_C_API __attribute__((visibility("default")))
#else
#define LEVIN_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LEVIN_C_ABI_VERSION 1
/* That of the library. It is LEVIN_C_ABI_VERSION of the header if they fit. */
LEVIN_C_API int32_t levin_c_abi_version(void);
/* Of levin: "0.2.0". */
LEVIN_C_API const char* levin_version(void);

typedef int32_t levin_status;
enum {
  LEVIN_OK = 0,
  LEVIN_ERROR = 1,        /* in the module, LibTorch or levin; the text has hook, epoch and step */
  LEVIN_CONFIG_ERROR = 2, /* the YAML or an override is wrong; the text has file, line and column */
  LEVIN_MISUSE = 3,       /* a wrong call: NULL, an unknown name, step() before begin() */
  LEVIN_IO_ERROR = 4,     /* a file cannot be read or written */
  LEVIN_DESYNC = 5,       /* another rank has failed, or ranks make different calls */
  LEVIN_INTERRUPTED = 6,  /* a signal */
  LEVIN_NO_MEMORY = 7
};
/* Why the last call of this thread that failed did so; "" if none has. Valid until the next one fails. */
LEVIN_C_API const char* levin_last_error(void);

enum { LEVIN_LOG_DEBUG = 0, LEVIN_LOG_INFO = 1, LEVIN_LOG_WARNING = 2, LEVIN_LOG_ERROR = 3 };
/* Gets each message of levin, one at a time, from any thread. `context` is what was given with it. */
typedef void (*levin_log_function)(int32_t level, const char* text, void* context);
/* Messages go to `log` instead of standard output and error, for all sessions of the process. NULL restores these. */
LEVIN_C_API void levin_set_log(levin_log_function log, void* context);

/* ---- batches ------------------------------------------------------------------------------------------------------------ */

typedef int32_t levin_dtype;
enum {
  LEVIN_BOOL = 0, /* one byte, 0 or 1 */
  LEVIN_UINT8 = 1,
  LEVIN_INT8 = 2,
  LEVIN_INT16 = 3,
  LEVIN_INT32 = 4,
  LEVIN_INT64 = 5,
  LEVIN_FLOAT16 = 6,
  LEVIN_BFLOAT16 = 7,
  LEVIN_FLOAT32 = 8,
  LEVIN_FLOAT64 = 9,
  LEVIN_COMPLEX64 = 10,
  LEVIN_COMPLEX128 = 11
};
enum { LEVIN_CPU = 1, LEVIN_CUDA = 2 }; /* DLPack's numbers */

/* Named tensors, whose first dimension is the sample. */
typedef struct levin_batch levin_batch;

LEVIN_C_API levin_status levin_batch_create(levin_batch** batch);
/* NULL is permitted. */
LEVIN_C_API void levin_batch_free(levin_batch* batch);
/* Adds a tensor in the caller's memory (of the CPU), or replaces that of the same name. Nothing is copied: the memory must stay
   until the batch is freed, and may change between two steps. `strides`, in elements: NULL is row-major, as C lays an array
   out; {1, rows} is a matrix in column-major order. */
LEVIN_C_API levin_status levin_batch_set(levin_batch* batch, const char* name, void* data, levin_dtype dtype,
                                         int32_t dimensions, const int64_t* shape, const int64_t* strides);
/* The same by DLPack, from any device that LibTorch knows. The batch owns the tensor then, also when the call fails. */
struct DLManagedTensor;
LEVIN_C_API levin_status levin_batch_set_dlpack(levin_batch* batch, const char* name, struct DLManagedTensor* tensor);
struct DLManagedTensorVersioned;
LEVIN_C_API levin_status levin_batch_set_dlpack_versioned(levin_batch* batch, const char* name,
                                                          struct DLManagedTensorVersioned* tensor);

/* How many tensors it has. */
LEVIN_C_API size_t levin_batch_size(const levin_batch* batch);
/* "" for one without a name; NULL past the last. Valid until the batch changes. */
LEVIN_C_API const char* levin_batch_name(const levin_batch* batch, size_t position);

/* A tensor of a batch, where it is. `strides` are in elements. */
typedef struct levin_tensor {
  void* data;
  levin_dtype dtype;
  int32_t device_type;
  int32_t device_index;
  int32_t dimensions;
  const int64_t* shape;
  const int64_t* strides;
} levin_tensor;
/* Valid until the batch changes. `name` NULL: its first tensor. */
LEVIN_C_API levin_status levin_batch_get(const levin_batch* batch, const char* name, levin_tensor* tensor);
/* Copies a tensor into the caller's memory, which has the same shape, converts it to `dtype`, and waits for its device. */
LEVIN_C_API levin_status levin_batch_copy(const levin_batch* batch, const char* name, void* data, levin_dtype dtype,
                                          int32_t dimensions, const int64_t* shape, const int64_t* strides);
/* Shares a tensor by DLPack. The caller calls its `deleter`, before or after the batch is freed. */
LEVIN_C_API levin_status levin_batch_get_dlpack(const levin_batch* batch, const char* name, struct DLManagedTensor** tensor);

/* ---- sessions ----------------------------------------------------------------------------------------------------------- */

/* levin::Session (docs/session.md). */
typedef struct levin_session levin_session;

/* Makes module, data and Trainer from a file as `levin fit --config file` does. `overrides`: "trainer.max_epochs=5". The model
   is a built-in class, one of a plug-in (`plugins:`), or a package that Python's levin_train.export() has made. */
LEVIN_C_API levin_status levin_session_open(const char* file, const char* const* overrides, size_t override_count,
                                            levin_session** session);
/* The same from YAML itself. */
LEVIN_C_API levin_status levin_session_open_text(const char* yaml, const char* const* overrides, size_t override_count,
                                                 levin_session** session);
/* Frees it. A session that has begun and not ended fails for the other ranks. NULL is permitted. */
LEVIN_C_API void levin_session_close(levin_session* session);

/* Keeps the caller's memory in each checkpoint, and restores it in levin_session_begin(). Before that call. */
LEVIN_C_API levin_status levin_session_keep(levin_session* session, const char* name, void* data, levin_dtype dtype,
                                            int32_t dimensions, const int64_t* shape, const int64_t* strides);
/* `ckpt_path`: a checkpoint to resume from, "last" or "best"; NULL: what the YAML says. */
LEVIN_C_API levin_status levin_session_begin(levin_session* session, const char* ckpt_path);

typedef struct levin_step_result {
  double loss;        /* NaN if there is none: this rank had no part in a step, or the module skipped it */
  int32_t ends_epoch; /* 1: the epoch has ended with this step */
  int32_t stops;      /* 1: training is over; call levin_session_end() */
} levin_step_result;
/* Trains on a batch. `result` may be NULL; then the loss of a GPU is not waited for. */
LEVIN_C_API levin_status levin_session_step(levin_session* session, const levin_batch* batch, levin_step_result* result);
/* For loops that have epochs. `stops`, which may be NULL: 1 if training is over. */
LEVIN_C_API levin_status levin_session_begin_epoch(levin_session* session, int32_t* stops);
LEVIN_C_API levin_status levin_session_end_epoch(levin_session* session, int32_t* stops);
/* Evaluates the model on batches, or with a count of 0 on the data of the YAML. levin_session_metric() has the results. */
LEVIN_C_API levin_status levin_session_validate(levin_session* session, const levin_batch* const* batches, size_t count);
LEVIN_C_API levin_status levin_session_test(levin_session* session, const levin_batch* const* batches, size_t count);
/* Gives what the model's predict_step returns, with the averaged weights, if there are any. The caller frees it. */
LEVIN_C_API levin_status levin_session_predict(levin_session* session, const levin_batch* batch, levin_batch** prediction);
/* Writes a checkpoint from which levin_session_begin() resumes exactly here. */
LEVIN_C_API levin_status levin_session_save(levin_session* session, const char* file);
/* Gives the model the weights of a file; optimizers and counters stay. */
LEVIN_C_API levin_status levin_session_load(levin_session* session, const char* file);
/* Ends the epoch and training. The session may begin again. */
LEVIN_C_API levin_status levin_session_end(levin_session* session);
/* Asks training to end after the next step, on all ranks. `reason` may be NULL. From any thread. */
LEVIN_C_API levin_status levin_session_stop(levin_session* session, const char* reason);

/* The newest value of what the model logged. Misuse if there is none of this name; the text names those that there are. */
LEVIN_C_API levin_status levin_session_metric(levin_session* session, const char* name, double* value);
/* Names of all that was logged. Valid until the next call for this session. */
LEVIN_C_API levin_status levin_session_metric_names(levin_session* session, const char* const** names, size_t* count);
/* Optimizer steps so far. */
LEVIN_C_API int64_t levin_session_global_step(levin_session* session);
LEVIN_C_API int64_t levin_session_epoch(levin_session* session);
/* 1: training is over, or will be after the next step. */
LEVIN_C_API int32_t levin_session_should_stop(levin_session* session);
/* From 0; 0 before levin_session_begin() in a run of one process. */
LEVIN_C_API int32_t levin_session_rank(levin_session* session);
LEVIN_C_API int32_t levin_session_world_size(levin_session* session);
/* The folder of the run's files. Valid until the next call for this session. */
LEVIN_C_API levin_status levin_session_log_dir(levin_session* session, const char** folder);

/* ---- predictors --------------------------------------------------------------------------------------------------------- */

/* A trained model for prediction alone, with the numbers of `levin predict` (docs/deploy.md). */
typedef struct levin_predictor levin_predictor;
/* `file`: a checkpoint, the folder of a run, "logs/version_0:best", or a package of levin_train.export(). `plugins`: libraries
   with its classes; NULL for none. */
LEVIN_C_API levin_status levin_predictor_open(const char* file, const char* const* plugins, size_t plugin_count,
                                              levin_predictor** predictor);
/* NULL is ignored. */
LEVIN_C_API void levin_predictor_close(levin_predictor* predictor);
/* Predicts for a batch with the data's own values. From any number of threads, each with batches of its own. The caller frees
   the prediction. */
LEVIN_C_API levin_status levin_predictor_predict(const levin_predictor* predictor, const levin_batch* batch,
                                                 levin_batch** prediction);
/* The name of a class by its number in "label"; NULL where the data has none. */
LEVIN_C_API const char* levin_predictor_class_name(const levin_predictor* predictor, int64_t number);

#ifdef __cplusplus
}
#endif
