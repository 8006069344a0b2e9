/* What a call costs in C: the loop that call_cost.py runs in Python. Prints nanoseconds for a run, the least of twenty
 * rounds, and the median; of the thread's own time, so that what else the machine does counts little. Arguments: a container whose program takes x and gives y, both f32[4]. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/api/mlc.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  enum { kRounds = 20, kRuns = 5000 };
  const MlcApi* mlc = mlc_get_api(MLC_API_VERSION);
  MlcOpenOptions open = {sizeof open};
  open.path = argc > 1 ? argv[1] : "";
  open.allow_unsigned = 1;
  MlcSessionOptions options = {sizeof options};
  options.threads = 1;
  MlcModel* model = NULL;
  MlcSession* session = NULL;
  MlcError* error = NULL;
  if (!mlc || mlc->open(&open, &model, &error) || mlc->session_create(model, &options, &session, &error)) {
    fprintf(stderr, "%s\n", mlc ? mlc->error_text(error) : "the library is too old");
    return 1;
  }
  _Alignas(64) float x[4] = {-1, 2, -3, 4}, y[16];
  const int64_t shape[1] = {4};
  double times[kRounds];
  for (int round = 0; round < kRounds; ++round) {
    const double start = now();
    for (int i = 0; i < kRuns; ++i) {
      MlcTensor in = mlc_tensor(x, MLC_F32, 1, shape), out = mlc_tensor(y, MLC_F32, 1, shape);
      in.name = "x";
      if (mlc->run(session, NULL, &in, 1, &out, 1, &error)) {
        fprintf(stderr, "%s\n", mlc->error_text(error));
        return 1;
      }
    }
    times[round] = (now() - start) / kRuns;
  }
  qsort(times, kRounds, sizeof times[0], by_value);
  printf("%.0f %.0f\n", times[0], times[kRounds / 2]);
  mlc->session_release(session);
  mlc->model_release(model);
  return 0;
}
