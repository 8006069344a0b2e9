#include "runtime/cli/files/run_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/counted.h"
#include "base/cli/report.h"
#include "base/files/file_calls.h"
#include "runtime/cli/crash.h"
#include "runtime/cli/answers/duration.h"
#include "runtime/cli/files/file_answer.h"
#include "runtime/cli/files/file_list.h"
#include "runtime/cli/files/overlap.h"
#include "runtime/cli/isolation.h"
#include "runtime/isolation/passed_lines.h"
#include "runtime/probe/probe.h"
#include "runtime/sandbox/sandbox.h"

namespace mlc::cli {
namespace {

constexpr size_t kMostUnwritten = 4;  // answers
// What a child hands over beside what it prints.
constexpr const char *kSkipped = "skipped", *kAll = "all", *kSound = "sound";

// A file or folder, and the name of the input before it, if there is one.
struct Word {
  std::string name, path;
};
Word word_of(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == text.npos || has_file(text)) return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// How it went. On a terminal that shows no answers, a line says so while it goes on.
class Tally {
 public:
  explicit Tally(size_t count) : count_(count), is_shown_(isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO)), start_(now_ns()) {}

  void add(Code code, bool is_skipped) {
    ++(is_skipped ? skipped_ : code == Code::Ok ? done_ : failed_);
    if (failed_ == 1 && exit_code_ == 0 && !is_skipped) exit_code_ = static_cast<int>(code);
    const uint64_t now = now_ns();
    if (!is_shown_ || now - shown_at_ < kBetween) return;
    shown_at_ = now;
    const std::string line = "\r" + std::to_string(done_ + failed_ + skipped_) + " of " + counted(count_, "file");
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  // The last line of standard error. Returns the exit code.
  int finish(uint64_t links) {
    const uint64_t ns = std::max<uint64_t>(now_ns() - start_, 1);
    if (shown_at_ > 0) std::fputs("\r\x1b[K", stderr);
    std::string line = counted(done_, "file") + " answered";
    if (failed_ > 0) line += " · " + std::to_string(failed_) + " failed";
    if (skipped_ > 0) line += " · " + std::to_string(skipped_) + " skipped that the pipeline does not take";
    if (links > 0) line += " · " + counted(links, "symbolic link") + " not followed";
    char rate[48];
    std::snprintf(rate, sizeof rate, " · %.1f files/s", static_cast<double>(done_) * 1e9 / static_cast<double>(ns));
    note(line + " · " + ms_text(ns) + rate);
    return exit_code_;
  }
  bool has_answer() const { return done_ + failed_ > 0; }

 private:
  static constexpr uint64_t kBetween = 100'000'000;
  const size_t count_;
  const bool is_shown_;
  const uint64_t start_;
  uint64_t done_ = 0, failed_ = 0, skipped_ = 0, shown_at_ = 0;
  int exit_code_ = 0;
};

Status check_options(const FilesRun& run) {
  if (run.as_json) return Status(Code::Usage, "--json prints one object, and there is an answer for each file").hint("--json-lines");
  if (run.input.raw) return Status(Code::Usage, "--raw: several files are answered by a pipeline").hint("leave out --raw");
  if (!run.input.dims.empty()) return Status(Code::Usage, "--dim: the pipeline makes arrays of the sizes that its files have");
  if (!run.results.empty() && has_file(run.results) && !is_folder(run.results))
    return Status(Code::Usage, "-o {}: results of several files go into a folder, and this is a file", run.results);
  if (!run.results.empty() && !is_folder(run.results) && !run.results.ends_with('/'))
    return Status(Code::Usage, "-o {}: results of several files go into a folder, and there is none of that name", run.results)
        .hint("-o " + run.results + "/ makes it");
  return ok();
}

// Of all words; they agree, or this is Usage.
Result<std::string> input_name(const FilesRun& run) {
  std::string name;
  for (const std::string& text : run.input.specs) {
    const Word word = word_of(text);
    if (!word.name.empty() && !name.empty() && word.name != name)
      return Status(Code::Usage, "several files are given to one input, and '{}' and '{}' are two", name, word.name);
    if (!word.name.empty()) name = word.name;
  }
  return name;
}

Result<FileList> list_of(const FilesRun& run) {
  FileRequest request{{}, run.list, run.results};
  for (const std::string& text : run.input.specs) request.names.push_back(word_of(text).path);
  MLC_ASSIGN(FileList list, FileList::of(request));
  if (list.files().empty()) return Status(Code::NotFound, "there is no file in what was given");
  return list;
}

// Where the result of a file goes: the folders on the way to it are made.
Result<io::FileWriter> result_writer(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "" : path.substr(0, slash);
  if (!folder.empty() && !make_folders(folder)) return Status(Code::NotFound, "cannot make the folder of '{}': {}", path, std::strerror(errno));
  return io::FileWriter::create(path);
}

Status write_result(const std::string& path, Bytes result) {
  MLC_ASSIGN(io::FileWriter writer, result_writer(path));
  MLC_RETURN_IF_ERROR(writer.write(result));
  return writer.commit();
}

struct Opened {
  OpenModel model;
  mlio::Target target;
};
Result<Opened> open_pipeline(const FilesRun& run, OpenFiles& files, const std::string& name) {
  MLC_ASSIGN(OpenModel model, open_model(files));
  MLC_ASSIGN(mlio::Target target, choose_target(model, run.input));
  MLC_RETURN_IF_ERROR(check_variant(model, run.variant));
  MLC_RETURN_IF_ERROR(check_task({model, target, run.variant.limits, run.results, run.top, run.as_json_lines}, name));
  return Opened{std::move(model), std::move(target)};
}

FilesTask task_of(const FilesRun& run, const Opened& opened) {
  return {opened.model, opened.target, run.variant.limits, run.results, run.top, run.as_json_lines};
}

// All of them in this process.
Status answer_together(const FilesRun& run, const FileList& list, OpenFiles& files, const std::string& name, Tally& tally) {
  MLC_ASSIGN(const Opened opened, open_pipeline(run, files, name));
  const FilesTask task = task_of(run, opened);
  MLC_ASSIGN(const OpenSession session, open_session(opened.model, run.variant, {.pin = false}));  // threads begun here would be bound likewise
  say_what_crashed(opened.model, session.info.variant);
  say_what_runs(opened.model, session, "open " + ms_text(opened.model.open_ns + session.load_ns), false);
  const size_t workers = run.variant.threads != 0 ? run.variant.threads : probe::workers_for(probe::host().topology, 0);
  const auto decode = [&](size_t k) { return decode_file(task, list.files()[k], list.open(list.files()[k])); };
  MadeAhead<DecodedFile> decoded(list.files().size(), num_decoders(workers), kMostWaiting, decode, [](const DecodedFile& d) { return d.bytes; });
  const bool is_sound = makes_sounds(task);
  {
    DoneBehind behind(kMostUnwritten);
    for (const ListedFile& file : list.files()) {
      if (std::ferror(stdout)) break;  // the answers are not taken, which has been said
      FileAnswer answer = answer_file(task, file, decoded.take(), session);
      behind.put([&run, &file, &tally, is_sound, answer = std::move(answer)]() mutable {
        if (!run.results.empty() && answer.failure.ok() && answer.skipped.empty())
          answer.failure = write_result(result_path(run.results, file, is_sound), answer.result);
        tally.add(static_cast<Code>(print_answer(answer, run.as_json_lines)), !answer.skipped.empty());
      });
    }
  }
  say_what_fell_back(session);
  return ok();
}

// In a child: one file, from opening the container to what is printed.
Result<FileAnswer> answer_alone(const FilesRun& run, const ListedFile& file, OpenFiles& files, const std::string& name,
                                Result<signing::Descriptor>& open, const PassedLines& passed) {
  const auto opened = open_pipeline(run, files, name);
  if (!opened) {
    MLC_RETURN_IF_ERROR(passed.put({kAll}));
    return opened.status();
  }
  const FilesTask task = task_of(run, *opened);
  DecodedFile decoded = decode_file(task, file, std::move(open));
  if (!decoded.skipped.empty()) MLC_RETURN_IF_ERROR(passed.put({kSkipped}));
  FileAnswer answer;
  if (decoded.failure.ok() && decoded.skipped.empty()) {
    const auto session = open_session(opened->model, run.variant, {.taken = decoded.counted, .is_quiet = files.is_quiet});
    if (!session) {
      MLC_RETURN_IF_ERROR(passed.put({kAll}));
      return session.status();
    }
    if (!files.is_quiet) say_what_runs(opened->model, *session, "one process for each file", false);
    answer = answer_file(task, file, std::move(decoded), *session);
    say_what_fell_back(*session);
  } else {
    answer.path = file.path, answer.skipped = decoded.skipped, answer.failure = std::move(decoded.failure);
  }
  if (files.output && answer.failure.ok() && answer.skipped.empty()) {
    if (makes_sounds(task)) MLC_RETURN_IF_ERROR(passed.put({kSound}));
    MLC_RETURN_IF_ERROR(files.output->write(answer.result));
    MLC_RETURN_IF_ERROR(files.output->sync());
  }
  return answer;
}

// A process for each file. What concerns all of them ends the loop.
Status answer_each(const FilesRun& run, const ContainerCommand& command, const FileList& list, OpenFiles& files, const std::vector<int>& inherited,
                   const std::string& name, Tally& tally) {
  for (const ListedFile& file : list.files()) {
    auto open = list.open(file);
    files.uses_stdin = file.path == "-";
    struct stat st = {};
    const bool is_there = open.ok() && fstat(open->get(), &st) == 0;
    files.input_bytes = is_there && S_ISREG(st.st_mode) ? static_cast<uint64_t>(st.st_size) : 0;
    files.is_length_unknown = is_there && !S_ISREG(st.st_mode);
    files.output.reset();
    if (!run.results.empty()) {
      MLC_ASSIGN(io::FileWriter writer, result_writer(result_path(run.results, file, false)));
      files.output.emplace(std::move(writer));
    }
    const PassedLines passed;
    const auto says = [&](const char* word) {
      const std::vector<std::string> said = passed.get();
      return std::find(said.begin(), said.end(), word) != said.end();
    };
    files.output_name = [&] { return result_path(run.results, file, says(kSound)); };
    FileAnswer answer;
    answer.path = file.path;
    const auto print = [&](const Result<Report>& report) {
      if (!report.ok()) answer.failure = report.status();
      const int code = print_answer(answer, run.as_json_lines);
      const bool is_taken = !answer.failure.ok() || code == 0;  // else standard output takes none of them
      if (!is_taken && !passed.put({kAll}).ok()) return static_cast<int>(Code::Internal);
      return answer.skipped.empty() ? code : static_cast<int>(Code::No);
    };
    const auto body = [&](OpenFiles& own) -> Result<Report> {
      MLC_ASSIGN(answer, answer_alone(run, file, own, name, open, passed));
      return Report{};
    };
    const int code = answer_isolated(command, files, inherited, body, print);
    tally.add(static_cast<Code>(code), code == static_cast<int>(Code::No) && says(kSkipped));
    if (code != 0 && says(kAll)) return ok();
    files.is_quiet = files.is_quiet || code == 0;
  }
  return ok();
}

Status answer_files(const FilesRun& run, int& exit_code) {
  std::vector<int> inherited = sandbox::open_descriptors();
  MLC_RETURN_IF_ERROR(check_options(run));
  MLC_ASSIGN(const std::string name, input_name(run));
  const ContainerCommand command{"run", false, run.container, {}, {}, {.limits = &run.variant.limits, .threads = run.variant.threads}};
  MLC_RETURN_IF_ERROR(check_isolation(command));
  MLC_ASSIGN(OpenFiles files, open_files(command));
  MLC_ASSIGN(const FileList list, list_of(run));
  const std::vector<int> folders = list.descriptors();
  inherited.insert(inherited.end(), folders.begin(), folders.end());
  Tally tally(list.files().size());
  if (run.as_json_lines && !files.isolated) crash_with_json("run");
  if (files.isolated) MLC_RETURN_IF_ERROR(answer_each(run, command, list, files, inherited, name, tally));
  else MLC_RETURN_IF_ERROR(answer_together(run, list, files, name, tally));
  exit_code = tally.finish(list.links());
  if (!tally.has_answer()) return Status(Code::InputMismatch, 4001, "none of {} is one that the pipeline takes", counted(list.files().size(), "file"));
  return ok();
}

}  // namespace

bool means_files(const FilesRun& run) {
  return run.as_json_lines || !run.list.empty() ||
         std::any_of(run.input.specs.begin(), run.input.specs.end(), [](const std::string& text) { return is_folder(word_of(text).path); });
}

int run_files(const FilesRun& run) {
  int exit_code = 0;
  if (Status failed = answer_files(run, exit_code); !failed.ok()) return finish("run", run.as_json || run.as_json_lines, std::move(failed));
  return exit_code;
}

}  // namespace mlc::cli
