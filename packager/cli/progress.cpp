#include "packager/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "base/cli/report.h"
#include "packager/cli/early_end.h"

namespace mlc::cli {
namespace {

using namespace std::chrono_literals;
constexpr auto kQuiet = 500ms, kPause = 100ms;

double seconds_since(std::chrono::steady_clock::time_point begin) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }

size_t columns() {
  struct winsize size {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

}  // namespace

std::string progress_text(const compile::Stage& stage) {
  if (stage.total == 0) return stage.name;
  return stage.name + ": " + stage.parts + " " + std::to_string(stage.done) + " of " + std::to_string(stage.total);
}

ProgressLine::ProgressLine(const std::string& mode, bool as_json) {
  if (mode == "plain") mode_ = Mode::Plain;
  if (mode == "tty") mode_ = Mode::Tty;
  if (mode == "auto") {
    const char* terminal = std::getenv("TERM");
    const bool dumb = terminal && std::string_view(terminal) == "dumb";
    if (!as_json && !std::getenv("CI") && !dumb && isatty(STDERR_FILENO)) mode_ = Mode::Tty;
  }
  if (mode_ != Mode::Tty) return;
  try {
    artist_ = std::thread(&ProgressLine::keep_drawing, this);
  } catch (const std::system_error&) {
    mode_ = Mode::None;  // no thread to be had: the work matters, not the line
  }
}

void ProgressLine::show(const compile::Stage& stage) {
  const std::lock_guard lock(mu_);
  if (stage.name != stage_.name) {
    finish_stage();
    begin_ = Clock::now();
  } else if (stage.done < stage_.done) {
    return;  // threads count up and tell it in any order
  }
  stage_ = stage;
}

void ProgressLine::finish_stage() {
  if (stage_.name.empty()) return;
  phases_.push_back({stage_.name, seconds_since(begin_)});
  if (mode_ != Mode::Plain) return;
  const std::string parts = stage_.total == 0 ? "" : std::string(": ") + stage_.parts + " " + std::to_string(stage_.total);
  std::fprintf(stderr, "%6.1f s  %s\n", phases_.back().seconds, printable(stage_.name + parts).c_str());
}

void ProgressLine::keep_drawing() {
  std::unique_lock lock(mu_);
  if (wake_.wait_for(lock, kQuiet, [&] { return done_; })) return;
  line_is_shown(true);
  do {
    char time[32];
    std::snprintf(time, sizeof time, "%6.1f s  ", seconds_since(begin_));
    std::fprintf(stderr, "\r\033[K%s", printable(time + progress_text(stage_)).substr(0, columns() - 1).c_str());
    std::fflush(stderr);
  } while (!wake_.wait_for(lock, kPause, [&] { return done_; }));
  std::fputs("\r\033[K", stderr);
  line_is_shown(false);
}

void ProgressLine::clear() {
  {
    const std::lock_guard lock(mu_);
    finish_stage();
    stage_ = {};
    done_ = true;
  }
  wake_.notify_one();
  if (artist_.joinable()) artist_.join();
}

}  // namespace mlc::cli
