/* Any file in, labelled answers out, through the pipeline of a container: libmlio around libmlrt, in C99.
 *
 *   cc -std=c99 answers.c $(pkg-config --cflags --libs mlio) -o answers
 *   ./answers digits.mlc photo.jpg [publisher.pub.pem] */
#include <mlrt/mlio.h>

#include <stdio.h>
#include <stdlib.h>

/* The whole file in memory of malloc; null: it cannot be read. */
static void* read_file(const char* path, uint64_t* bytes) {
  FILE* file = fopen(path, "rb");
  char* data = NULL;
  size_t size = 0, room = 0, got = 0;
  if (!file) return NULL;
  do {
    size += got;
    if (size == room) {
      char* larger = realloc(data, room += 65536);
      if (!larger) break;
      data = larger;
    }
  } while ((got = fread(data + size, 1, room - size, file)) > 0);
  fclose(file);
  *bytes = size;
  return data;
}

static void print_text(MlcString s) { printf("%.*s", (int)s.bytes, s.data); }

static void print_answers(const MlioApi* mlio, const MlioAnswers* answers) {
  MlioAnswersInfo all = {.size = sizeof all};
  mlio->answers_info(answers, &all);
  for (uint32_t i = 0; i < all.num_answers; ++i) {
    MlioAnswer answer = {.size = sizeof answer};
    mlio->answer(answers, i, &answer);
    if (answer.kind == MLIO_ARRAY) printf("%s: an array of %u axes\n", answer.name, answer.array.rank);
    for (uint32_t row = 0; row < answer.num_rows; ++row) {
      MlioClass best = {.size = sizeof best};
      MlioLine line = {.size = sizeof line};
      MlioBox box = {.size = sizeof box};
      if (answer.kind == MLIO_CLASSES && mlio->class_at(answers, i, row, 0, &best) == MLC_OK) {
        print_text(best.label);
        printf(" %.3f\n", best.score);
      }
      if (answer.kind == MLIO_TEXT && mlio->line(answers, i, row, &line) == MLC_OK) {
        print_text(line.text);
        printf(" %.3f\n", line.score);
      }
      if (answer.kind == MLIO_BOXES && mlio->box(answers, i, row, &box) == MLC_OK) {
        print_text(box.label);
        printf(" %.3f at %g %g %g %g\n", box.score, box.x1, box.y1, box.x2, box.y2);
      }
    }
  }
}

/* Both libraries report errors in the same way, each with a type of its own. */
static int run(const MlcApi* mlc, const MlioApi* mlio, const MlcModel* model, MlcSession* session, MlcBytes file) {
  MlioPipeline* pipeline = NULL;
  MlioAnswers* answers = NULL;
  MlioError* error = NULL;
  const MlioGiven input = {.file = file};
  int code = mlio->open(mlc, model, NULL, &pipeline, &error);
  if (!code) code = mlio->run(pipeline, session, NULL, &input, 1, &answers, &error);
  if (code)
    fprintf(stderr, "%s\n", mlio->error_text(error));
  else
    print_answers(mlio, answers);
  mlio->error_release(error);
  mlio->answers_release(answers);
  mlio->release(pipeline);
  return code;
}

int main(int argc, char** argv) {
  if (argc < 3) return fprintf(stderr, "usage: answers MODEL.mlc FILE [KEY.pem]\n"), MLC_USAGE;
  const MlcApi* mlc = mlc_get_api(MLC_API_VERSION);
  const MlioApi* mlio = mlio_get_api(MLIO_API_VERSION);
  if (!mlc || !mlio) return fprintf(stderr, "the libraries are older than this program\n"), MLC_UNSUPPORTED;

  MlcBytes file = {NULL, 0};
  void* const data = read_file(argv[2], &file.bytes);
  if (!data) return fprintf(stderr, "%s: cannot be read\n", argv[2]), MLC_NOT_FOUND;
  file.data = data;
  const char* const key = argc > 3 ? argv[3] : NULL;
  const MlcOpenOptions options = {.size = sizeof options, .path = argv[1], .trust_keys = &key, .num_trust_keys = key ? 1 : 0};
  MlcModel* model = NULL;
  MlcSession* session = NULL;
  MlcError* error = NULL;
  int code = mlc->open(&options, &model, &error);
  if (!code) code = mlc->session_create(model, NULL, &session, &error);
  if (code) fprintf(stderr, "%s\n", mlc->error_text(error));
  if (!code) code = run(mlc, mlio, model, session, file);
  mlc->error_release(error);
  mlc->session_release(session);
  mlc->model_release(model);
  free(data);
  return code;
}
