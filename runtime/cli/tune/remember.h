// What mlrun remembers of the variants of a container (runtime/match/choices.h), in the user's state folder. The library reads it when
// a model is opened.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "runtime/cli/options.h"
#include "runtime/match/choices.h"

namespace mlc::cli {

// Of this machine with the devices that the model was opened with.
[[nodiscard]] match::Fingerprints fingerprints_of(const OpenModel& model);
[[nodiscard]] Digest root_of(const OpenModel& model);

// An error if it could not be written: then nothing is remembered.
[[nodiscard]] Status remember_measured(const OpenModel& model, std::span<const match::RememberedVariant> variants);
[[nodiscard]] Status remember_fault(const OpenModel& model, std::string_view variant, std::string_view reason);
// False: nothing was remembered of this container.
[[nodiscard]] Result<bool> forget_choices(const OpenModel& model);

// What a handler of faults appends to the list, made while that is allowed.
struct FaultLines {
  std::string file;  // empty: nothing is remembered: portable code, an isolated process, no folder that only this user can change
  std::string illegal_instruction, memory_fault;
};
[[nodiscard]] FaultLines fault_lines(const OpenModel& model, std::string_view variant);

}  // namespace mlc::cli
