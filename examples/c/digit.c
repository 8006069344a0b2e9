/* Which digit is on a picture: a container opened, run and released, in C99.
 *
 *   cc -std=c99 digit.c $(pkg-config --cflags --libs mlrt) -o digit
 *   ./digit digits.mlc seven.pgm [publisher.pub.pem]
 *
 * The picture is a PGM of 28 x 28 as text (P2). Without the key of who signed the container nothing in it is trusted: its
 * portable form answers, slowly, and no machine code of the file is run. */
#include <mlrt/mlc.h>

#include <stdio.h>

#define SIDE 28
#define CLASSES 10

static int read_picture(const char* path, float* pixels) {
  FILE* file = fopen(path, "r");
  if (!file) return fprintf(stderr, "%s: cannot be read\n", path), 0;
  int width = 0, height = 0, largest = 0, value = 0, count = 0;
  if (fscanf(file, "P2 %d %d %d", &width, &height, &largest) == 3 && width == SIDE && height == SIDE && largest > 0)
    while (count < SIDE * SIDE && fscanf(file, "%d", &value) == 1) pixels[count++] = (float)value / (float)largest;
  fclose(file);
  if (count < SIDE * SIDE) fprintf(stderr, "%s: expected a PGM (P2) of %d x %d\n", path, SIDE, SIDE);
  return count == SIDE * SIDE;
}

/* A session of the best variant that fits this machine. */
static int open_session(const MlcApi* mlc, const char* path, const char* key, MlcModel** model, MlcSession** session,
                        MlcError** error) {
  const MlcOpenOptions options = {.size = sizeof options, .path = path, .trust_keys = &key, .num_trust_keys = key ? 1 : 0};
  int code = mlc->open(&options, model, error);
  return code ? code : mlc->session_create(*model, NULL, session, error);
}

static int classify(const MlcApi* mlc, MlcSession* session, float* pixels, float* scores, MlcError** error) {
  const int64_t shape[4] = {1, 1, SIDE, SIDE}, answer_shape[2] = {1, CLASSES};
  MlcTensor in = mlc_tensor(pixels, MLC_F32, 4, shape);
  MlcTensor out = mlc_tensor(scores, MLC_F32, 2, answer_shape);
  in.name = "image";
  out.name = "logits";
  return mlc->run(session, NULL, &in, 1, &out, 1, error);
}

static void print_answer(const MlcApi* mlc, const MlcModel* model, const MlcSession* session, const float* scores) {
  MlcModelInfo about = {.size = sizeof about};
  MlcSessionInfo running = {.size = sizeof running};
  mlc->model_info(model, &about);
  mlc->session_info(session, &running);
  int best = 0;
  for (int i = 1; i < CLASSES; ++i)
    if (scores[i] > scores[best]) best = i;
  printf("%d\n", best);
  fprintf(stderr, "%s version %llu, variant %s, %u threads; %s\n", about.id, (unsigned long long)about.version,
          running.variant, running.threads, about.trust);
}

int main(int argc, char** argv) {
  if (argc < 3) return fprintf(stderr, "usage: digit MODEL.mlc PICTURE.pgm [KEY.pem]\n"), MLC_USAGE;
  const MlcApi* mlc = mlc_get_api(MLC_API_VERSION);
  if (!mlc) return fprintf(stderr, "libmlrt %s is older than this program\n", mlc_version_string()), MLC_UNSUPPORTED;

  static float pixels[SIDE * SIDE], scores[CLASSES];
  if (!read_picture(argv[2], pixels)) return MLC_INPUT_MISMATCH;
  MlcModel* model = NULL;
  MlcSession* session = NULL;
  MlcError* error = NULL;
  int code = open_session(mlc, argv[1], argc > 3 ? argv[3] : NULL, &model, &session, &error);
  if (!code) code = classify(mlc, session, pixels, scores, &error);
  if (code)
    fprintf(stderr, "%s\n", mlc->error_text(error));
  else
    print_answer(mlc, model, session, scores);
  mlc->error_release(error); /* null is allowed, here and below */
  mlc->session_release(session);
  mlc->model_release(model);
  return code;
}
