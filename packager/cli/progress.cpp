#include "packager/cli/progress.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace mlc::cli {

Progress::Progress(const std::string& mode, bool as_json) : start_(std::chrono::steady_clock::now()) {
  if (mode == "plain") mode_ = Mode::Plain;
  if (mode == "tty") mode_ = Mode::Tty;
  if (mode == "auto") {
    const char* terminal = std::getenv("TERM");
    const bool dumb = terminal && std::string_view(terminal) == "dumb";
    if (!as_json && !std::getenv("CI") && !dumb && isatty(STDERR_FILENO)) mode_ = Mode::Tty;
  }
}

void Progress::show(const std::string& stage) {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (mode_ == Mode::Plain) std::fprintf(stderr, "%6.1f s  %s\n", seconds, stage.c_str());
  if (mode_ == Mode::Tty) {
    std::fprintf(stderr, "\r\033[K%6.1f s  %s", seconds, stage.c_str());
    std::fflush(stderr);
    shown_ = true;
  }
}

void Progress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace mlc::cli
