// The program that a container keeps, as the files that a build takes: for `add` without --from.
#pragma once

#include <memory>
#include <string>

#include "base/files/unfinished.h"
#include "packager/cli/model_flags.h"

namespace mlc::cli {

class ProgramFolder {
 public:
  // A folder beside `beside`, which goes when this does. NotFound where the container keeps no program, or this copy lacks it.
  [[nodiscard]] static Result<ProgramFolder> of(const std::string& file, const std::string& beside);
  ProgramFolder(ProgramFolder&& other) noexcept = default;
  ProgramFolder& operator=(ProgramFolder&&) = delete;
  ~ProgramFolder();

  const ModelFlags& flags() const { return flags_; }               // with the path of the model
  const std::string& pipeline_path() const { return pipeline_; }  // empty: there is none

 private:
  explicit ProgramFolder(std::string path) : path_(std::make_unique<std::string>(std::move(path))), unfinished_(*path_) {}
  std::unique_ptr<std::string> path_;  // null: moved from
  Unfinished unfinished_;
  ModelFlags flags_;
  std::string pipeline_;
};

}  // namespace mlc::cli
