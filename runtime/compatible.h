// The proof, as a type, that a variant may run here: every clause of its requirements was answered yes by the probe.
// Only the matcher makes one; loaders take one by value, so one match admits one load.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/memory/code_pages.h"
#include "schema/features.h"

namespace mlc {

// What a loader needs to know about the host, fixed at the time of the match.
struct HostFacts {
  Machine machine = Machine::None;
  CodePages code_pages = CodePages::None;
  uint64_t page_size = 4096;
  bool bti = false;           // a64.bti is yes
  uint32_t vector_bytes = 0;  // of the running thread, 0 if fixed by the architecture
};

class Compatible {
 public:
  Compatible(Compatible&&) = default;
  Compatible& operator=(Compatible&&) = default;
  Compatible(const Compatible&) = delete;
  Compatible& operator=(const Compatible&) = delete;

  uint32_t variant() const { return variant_; }            // index in the list that was matched
  const std::string& name() const { return name_; }        // for messages
  const HostFacts& host() const { return host_; }
  // Of the device that it may run on (runtime/device_info.h); empty: the processor.
  const std::string& device() const { return device_; }

 private:
  friend class Matcher;
  Compatible(uint32_t variant, std::string name, const HostFacts& host, std::string device)
      : variant_(variant), name_(std::move(name)), host_(host), device_(std::move(device)) {}

  uint32_t variant_;
  std::string name_;
  HostFacts host_;
  std::string device_;  // its identity
};

}  // namespace mlc
