// A sound whose parts come one after the other, each of them a file: what `wav_out` gives of the chunks of a stream.
#pragma once

#include "runtime/pipeline/answers.h"

namespace mlc::pipeline {

class JoinedSound {
 public:
  // Counts the part, and gives its bytes behind the header. InputMismatch (E4001) where its channels are others than those of the parts
  // before it, or no file holds so many samples. `name`: of the answer.
  Result<Bytes> add(const SoundFile& part, const std::string& name);
  // Of the file of all parts, of which there is one at least.
  Bytes header() const { return header_; }
  // All of it but the bytes.
  const SoundFile& about() const { return about_; }

 private:
  SoundFile about_;
  uint64_t bytes_ = 0;  // of samples
  std::vector<std::byte> header_;
};

}  // namespace mlc::pipeline
