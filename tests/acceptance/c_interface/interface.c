/* levin from C99: what each function of levin_c.h does, and what it says when it cannot. */
#include <levin/levin_c.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      printf("%d: %s does not hold; %s\n", __LINE__, #condition, levin_last_error());    \
      ++failures;                                                                        \
    }                                                                                    \
  } while (0)

/* The call fails with this status, and its text has these words. */
#define CHECK_FAILS(call, expected, words)                                                           \
  do {                                                                                               \
    const levin_status call_status = (call);                                                         \
    if (call_status != (expected) || strstr(levin_last_error(), (words)) == NULL) {                  \
      printf("%d: %s: status %d, '%s'\n", __LINE__, #call, (int)call_status, levin_last_error());    \
      ++failures;                                                                                    \
    }                                                                                                \
  } while (0)

static const char* const yaml =
    "seed_everything: 3\n"
    "trainer: {enable_progress_bar: false, enable_checkpointing: false}\n"
    "model: {class_path: MLPRegressor, init_args: {inputs: 2, hidden: [16], lr: 0.02}}\n";

enum { rows = 8, steps = 20 };
static float x[rows][2];
static float y[rows];

/* Another batch of y = 2 a - b in the same memory. */
static void fill(int step) {
  for (int row = 0; row < rows; ++row) {
    x[row][0] = (float)((row * 5 + step * 3) % 7) / 7.0f;
    x[row][1] = (float)((row * 3 + step * 2) % 5) / 5.0f;
    y[row] = 2 * x[row][0] - x[row][1];
  }
}

static levin_batch* make_batch(void) {
  const int64_t x_shape[] = {rows, 2};
  const int64_t y_shape[] = {rows};
  levin_batch* batch = NULL;
  CHECK(levin_batch_create(&batch) == LEVIN_OK);
  CHECK(levin_batch_set(batch, "features", x, LEVIN_FLOAT32, 2, x_shape, NULL) == LEVIN_OK);
  CHECK(levin_batch_set(batch, "label", y, LEVIN_FLOAT32, 1, y_shape, NULL) == LEVIN_OK);
  return batch;
}

static levin_session* open_session(void) {
  levin_session* session = NULL;
  CHECK(levin_session_open_text(yaml, NULL, 0, &session) == LEVIN_OK);
  return session;
}

static void train(levin_session* session, int from, int to, double* losses) {
  levin_batch* batch = make_batch();
  for (int step = from; step < to; ++step) {
    levin_step_result result;
    fill(step);
    CHECK(levin_session_step(session, batch, &result) == LEVIN_OK);
    CHECK(!result.stops && !result.ends_epoch);
    losses[step] = result.loss;
  }
  levin_batch_free(batch);
}

/* Trains, evaluates, and resumes to the bit, with memory of the program's own. */
static void check_training(void) {
  double losses[steps], resumed[steps], value = 0;
  int32_t solver_state[2] = {0, 0};
  const int64_t state_shape[] = {2};
  levin_session* session = open_session();
  CHECK(levin_session_keep(session, "solver", solver_state, LEVIN_INT32, 1, state_shape, NULL) == LEVIN_OK);
  CHECK(levin_session_begin(session, NULL) == LEVIN_OK);
  CHECK(levin_session_rank(session) == 0 && levin_session_world_size(session) == 1);
  train(session, 0, steps / 2, losses);
  solver_state[1] = 17;
  CHECK(levin_session_save(session, "middle.ckpt") == LEVIN_OK);
  train(session, steps / 2, steps, losses);
  CHECK(losses[steps - 1] < losses[0] / 4);
  CHECK(levin_session_global_step(session) == steps);

  fill(0);
  levin_batch* batch = make_batch();
  const levin_batch* const batches[] = {batch};
  CHECK(levin_session_validate(session, batches, 1) == LEVIN_OK);
  CHECK(levin_session_metric(session, "val_loss", &value) == LEVIN_OK && value > 0 && value < losses[0]);
  CHECK(levin_session_test(session, batches, 1) == LEVIN_OK);
  const char* const* names = NULL;
  size_t count = 0;
  int found = 0;
  CHECK(levin_session_metric_names(session, &names, &count) == LEVIN_OK);
  for (size_t index = 0; index < count; ++index) found += strcmp(names[index], "test_loss") == 0;
  CHECK(found == 1);
  CHECK_FAILS(levin_session_metric(session, "no_such", &value), LEVIN_MISUSE, "there is no metric 'no_such'; the module has logged");
  int32_t stops = -1;
  CHECK(levin_session_end_epoch(session, &stops) == LEVIN_OK && stops == 0);
  CHECK(levin_session_begin_epoch(session, &stops) == LEVIN_OK && stops == 0 && levin_session_epoch(session) == 1);
  CHECK(levin_session_stop(session, "enough") == LEVIN_OK && levin_session_should_stop(session) == 1);
  levin_step_result result;
  CHECK(levin_session_step(session, batch, &result) == LEVIN_OK && result.stops == 1 && result.ends_epoch == 1);
  const char* folder = NULL;
  CHECK(levin_session_log_dir(session, &folder) == LEVIN_OK && strlen(folder) > 0);
  CHECK(levin_session_end(session) == LEVIN_OK);
  levin_session_close(session);

  session = open_session();
  solver_state[1] = 0;
  CHECK(levin_session_keep(session, "solver", solver_state, LEVIN_INT32, 1, state_shape, NULL) == LEVIN_OK);
  CHECK(levin_session_begin(session, "middle.ckpt") == LEVIN_OK);
  CHECK(solver_state[1] == 17);
  train(session, steps / 2, steps, resumed);
  CHECK(memcmp(losses + steps / 2, resumed + steps / 2, sizeof(double) * (steps - steps / 2)) == 0);
  CHECK(levin_session_load(session, "middle.ckpt") == LEVIN_OK);
  CHECK(levin_session_step(session, batch, NULL) == LEVIN_OK);
  levin_batch_free(batch);
  CHECK(levin_session_end(session) == LEVIN_OK);
  levin_session_close(session);
}

/* The same samples in rows and in columns. */
static void check_memory(void) {
  levin_session* session = open_session();
  CHECK(levin_session_begin(session, NULL) == LEVIN_OK);
  fill(1);
  levin_batch* batch = make_batch();
  levin_batch* from_rows = NULL;
  levin_batch* from_columns = NULL;
  CHECK(levin_session_predict(session, batch, &from_rows) == LEVIN_OK);

  float columns[2][rows];
  const int64_t shape[] = {rows, 2}, column_major[] = {1, rows}, backwards[] = {-2, 1};
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < 2; ++column) columns[column][row] = x[row][column];
  CHECK(levin_batch_set(batch, "features", columns, LEVIN_FLOAT32, 2, shape, column_major) == LEVIN_OK);
  CHECK(levin_batch_size(batch) == 2);
  levin_tensor view;
  CHECK(levin_batch_get(batch, "features", &view) == LEVIN_OK);
  CHECK(view.data == columns && view.dtype == LEVIN_FLOAT32 && view.device_type == LEVIN_CPU && view.dimensions == 2);
  CHECK(view.shape[0] == rows && view.shape[1] == 2 && view.strides[0] == 1 && view.strides[1] == rows);
  CHECK(levin_session_predict(session, batch, &from_columns) == LEVIN_OK);
  CHECK(levin_batch_size(from_rows) == 1 && strcmp(levin_batch_name(from_rows, 0), "value") == 0);
  CHECK(levin_batch_name(from_rows, 1) == NULL);

  const int64_t value_shape[] = {rows}, wrong_shape[] = {rows + 1};
  float in_rows[rows], in_columns[rows];
  double in_double[rows + 1];
  CHECK(levin_batch_copy(from_rows, NULL, in_rows, LEVIN_FLOAT32, 1, value_shape, NULL) == LEVIN_OK);
  CHECK(levin_batch_copy(from_columns, "value", in_columns, LEVIN_FLOAT32, 1, value_shape, NULL) == LEVIN_OK);
  CHECK(levin_batch_copy(from_rows, "value", in_double, LEVIN_FLOAT64, 1, value_shape, NULL) == LEVIN_OK);
  for (int row = 0; row < rows; ++row) {
    CHECK(fabsf(in_rows[row] - in_columns[row]) < 1e-6f);
    CHECK(in_double[row] == (double)in_rows[row]);
  }
  CHECK_FAILS(levin_batch_copy(from_rows, "value", in_double, LEVIN_FLOAT64, 1, wrong_shape, NULL), LEVIN_MISUSE,
              "tensor 'value' has the shape [8], the memory for it [9]");
  CHECK_FAILS(levin_batch_copy(from_rows, "other", in_rows, LEVIN_FLOAT32, 1, value_shape, NULL), LEVIN_MISUSE, "value");
  CHECK_FAILS(levin_batch_set(batch, "x", x, 99, 2, shape, NULL), LEVIN_MISUSE, "there is no levin_dtype 99");
  CHECK_FAILS(levin_batch_set(batch, "x", x, LEVIN_FLOAT32, -1, shape, NULL), LEVIN_MISUSE, "-1 dimensions");
  CHECK_FAILS(levin_batch_set(batch, "x", x, LEVIN_FLOAT32, 2, backwards, NULL), LEVIN_MISUSE, "[-2, 1] is no shape");
  CHECK_FAILS(levin_batch_set(batch, "x", x, LEVIN_FLOAT32, 2, shape, backwards), LEVIN_MISUSE, "strides [-2, 1]");
  CHECK_FAILS(levin_batch_set(batch, "x", NULL, LEVIN_FLOAT32, 2, shape, NULL), LEVIN_MISUSE, "'data' is NULL");
  CHECK_FAILS(levin_batch_set(batch, NULL, x, LEVIN_FLOAT32, 2, shape, NULL), LEVIN_MISUSE, "'name' is NULL");
  levin_batch_free(from_rows);
  levin_batch_free(from_columns);
  levin_batch_free(batch);
  levin_batch_free(NULL);
  levin_session_close(session); /* without its end */
}

/* A checkpoint predicts alone what a session with its weights does. */
static void check_predictor(void) {
  levin_session* session = open_session();
  CHECK(levin_session_begin(session, NULL) == LEVIN_OK);
  CHECK(levin_session_load(session, "middle.ckpt") == LEVIN_OK);
  fill(1);
  levin_batch* batch = make_batch();
  levin_batch *expected = NULL, *found = NULL;
  CHECK(levin_session_predict(session, batch, &expected) == LEVIN_OK);
  levin_predictor* predictor = NULL;
  CHECK(levin_predictor_open("middle.ckpt", NULL, 0, &predictor) == LEVIN_OK);
  CHECK(levin_predictor_predict(predictor, batch, &found) == LEVIN_OK);
  const int64_t shape[] = {rows};
  float by_session[rows], by_predictor[rows];
  CHECK(levin_batch_copy(expected, "value", by_session, LEVIN_FLOAT32, 1, shape, NULL) == LEVIN_OK);
  CHECK(levin_batch_copy(found, "value", by_predictor, LEVIN_FLOAT32, 1, shape, NULL) == LEVIN_OK);
  CHECK(memcmp(by_session, by_predictor, sizeof by_session) == 0 && by_session[0] != 0);
  CHECK(levin_predictor_class_name(predictor, 0) == NULL);
  levin_batch_free(expected);
  levin_batch_free(found);
  levin_predictor_close(predictor);
  levin_predictor_close(NULL);
  CHECK_FAILS(levin_predictor_open("no.ckpt", NULL, 0, &predictor), LEVIN_CONFIG_ERROR, "no.ckpt");
  CHECK_FAILS(levin_predictor_open(NULL, NULL, 0, &predictor), LEVIN_MISUSE, "'file' is NULL");
  CHECK_FAILS(levin_predictor_predict(NULL, batch, &found), LEVIN_MISUSE, "'predictor' is NULL");
  levin_batch_free(batch);
  levin_session_close(session);
}

/* DLPack's structures, as its header has them. */
typedef struct DLManagedTensor {
  struct {
    void* data;
    struct { int32_t type, id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t* shape;
    int64_t* strides;
    uint64_t byte_offset;
  } dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

static int deleted = 0;
static void count_deleted(DLManagedTensor* self) {
  (void)self;
  ++deleted;
}

static void check_dlpack(void) {
  static double numbers[2][3] = {{1, 2, 3}, {4, 5, 6}};
  int64_t shape[] = {2, 3};
  DLManagedTensor given;
  memset(&given, 0, sizeof given);
  given.dl_tensor.data = numbers;
  given.dl_tensor.device.type = LEVIN_CPU;
  given.dl_tensor.ndim = 2;
  given.dl_tensor.dtype.code = 2;
  given.dl_tensor.dtype.bits = 64;
  given.dl_tensor.dtype.lanes = 1;
  given.dl_tensor.shape = shape;
  given.deleter = count_deleted;
  levin_batch* batch = NULL;
  CHECK(levin_batch_create(&batch) == LEVIN_OK);
  CHECK(levin_batch_set_dlpack(batch, "numbers", &given) == LEVIN_OK);
  levin_tensor view;
  CHECK(levin_batch_get(batch, NULL, &view) == LEVIN_OK);
  CHECK(view.data == numbers && view.dtype == LEVIN_FLOAT64 && view.strides[0] == 3);
  DLManagedTensor* shared = NULL;
  CHECK(levin_batch_get_dlpack(batch, "numbers", &shared) == LEVIN_OK);
  levin_batch_free(batch);
  CHECK(deleted == 0);
  CHECK(shared->dl_tensor.data == numbers && shared->dl_tensor.shape[1] == 3);
  shared->deleter(shared);
  CHECK(deleted == 1);
  CHECK_FAILS(levin_batch_set_dlpack(NULL, "numbers", &given), LEVIN_MISUSE, "'batch' is NULL");
  CHECK(deleted == 2);
  CHECK_FAILS(levin_batch_set_dlpack_versioned(NULL, "numbers", NULL), LEVIN_MISUSE, "'tensor' is NULL");
}

static void check_errors(void) {
  levin_session* session = NULL;
  levin_step_result result;
  CHECK_FAILS(levin_session_open("no_such.yaml", NULL, 0, &session), LEVIN_CONFIG_ERROR, "there is no file 'no_such.yaml'");
  CHECK(session == NULL);
  CHECK_FAILS(levin_session_open_text("modle: x\n", NULL, 0, &session), LEVIN_CONFIG_ERROR, "YAML text:1:1");
  const char* const wrong[] = {"trainer.max_epochs=two"};
  CHECK_FAILS(levin_session_open_text(yaml, wrong, 1, &session), LEVIN_CONFIG_ERROR, "override: trainer.max_epochs");
  CHECK_FAILS(levin_session_open_text(NULL, NULL, 0, &session), LEVIN_MISUSE, "'yaml' is NULL");
  CHECK_FAILS(levin_session_open_text(yaml, NULL, 0, NULL), LEVIN_MISUSE, "'session' is NULL");
  CHECK_FAILS(levin_session_begin(NULL, NULL), LEVIN_MISUSE, "'session' is NULL");
  CHECK(levin_session_global_step(NULL) == 0 && levin_session_world_size(NULL) == 1);
  levin_session_close(NULL);

  const char* const limits[] = {"trainer.max_steps=1", "model.init_args.inputs=3"};
  CHECK(levin_session_open_text(yaml, limits, 2, &session) == LEVIN_OK);
  levin_batch* batch = make_batch();
  CHECK_FAILS(levin_session_step(session, batch, &result), LEVIN_MISUSE, "call begin() first");
  CHECK_FAILS(levin_session_begin(session, "no_such.ckpt"), LEVIN_CONFIG_ERROR, "no_such.ckpt");
  CHECK(levin_session_begin(session, NULL) == LEVIN_OK);
  CHECK_FAILS(levin_session_validate(session, NULL, 0), LEVIN_MISUSE, "there is no data");
  CHECK(levin_session_begin(session, NULL) == LEVIN_OK);
  CHECK_FAILS(levin_session_step(session, batch, &result), LEVIN_MISUSE, "the model is made for samples of 3 numbers");
  levin_session_close(session);

  static double wide[rows][2];
  const int64_t shape[] = {rows, 2};
  session = open_session();
  CHECK(levin_session_begin(session, NULL) == LEVIN_OK);
  CHECK(levin_batch_set(batch, "features", wide, LEVIN_FLOAT64, 2, shape, NULL) == LEVIN_OK);
  CHECK_FAILS(levin_session_step(session, batch, &result), LEVIN_ERROR, "training_step");
  CHECK_FAILS(levin_session_save(session, "late.ckpt"), LEVIN_MISUSE, "call begin() first");
  CHECK(levin_session_begin(session, NULL) == LEVIN_OK);
  CHECK_FAILS(levin_session_save(session, "/dev/null/no.ckpt"), LEVIN_IO_ERROR, "/dev/null");
  levin_batch_free(batch);
  levin_session_close(session);
}

static int messages = 0;
static void count(int32_t level, const char* text, void* context) {
  messages += level == LEVIN_LOG_INFO && strlen(text) > 0 && strcmp((const char*)context, "mine") == 0;
}

int main(void) {
  CHECK(levin_c_abi_version() == LEVIN_C_ABI_VERSION);
  CHECK(strlen(levin_version()) > 0 && strcmp(levin_last_error(), "") == 0);
  levin_set_log(count, (void*)"mine");
  check_training();
  check_memory();
  check_predictor();
  check_dlpack();
  check_errors();
  CHECK(messages > 0);
  levin_set_log(NULL, NULL);
  puts(failures == 0 ? "all hold" : "failed");
  return failures == 0 ? 0 : 1;
}
