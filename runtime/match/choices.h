// What is remembered of the variants of containers on this machine: which one was measured to be the fastest, and which must not be
// used again. A list of lines in the user's state folder ("choices"). It is not believed: one that is damaged or lies costs
// speed, or a variant; whatever it says, only members of C are used (matcher.h).
//
//   chosen ROOT PERF VARIANT NS [PROGRAM]
//   measured ROOT PERF VARIANT NS [PROGRAM]
//   fault ROOT SAFETY VARIANT WORDS
//
// ROOT is the container's in hex; VARIANT is its name, where bytes outside of "!" to "~" and "%" are %XX, and so is PROGRAM, of a container of
// several: without it the line is of all programs that have none of their own (what versions wrote that measured one program for all, which
// pass over lines with it). SAFETY and PERF are
// fingerprints of this machine: 32 hex digits each. A fault holds where a variant would be used for the same reasons, a
// measurement where it would be as fast. Later lines count more; lines that are none are passed over.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/match/matcher.h"
#include "signing/hash_tree.h"

namespace mlc::match {

inline constexpr std::string_view kChoicesName = "choices";
inline constexpr size_t kMostChoiceBytes = 256u << 10;

struct Fingerprints {
  std::string safety;  // of all that requirements are answered from: features, numbers, page size, devices and drivers
  std::string perf;    // of that, and of the CPUs that may be used
};
[[nodiscard]] Fingerprints fingerprints(const probe::Record& record, std::span<const NamedDevice> devices);

struct RememberedVariant {
  std::string variant;
  uint64_t ns = 0;
  bool is_chosen = false;
  std::string program = {};  // empty: all that are measured by no name
};
struct RememberedFault {
  std::string variant, reason;
};

class ChoiceList {
 public:
  // Lines that are none are passed over; of a text beyond kMostChoiceBytes the last ones count. With `only` those of that container alone
  // are taken apart: a model is opened in less time than the whole list takes.
  [[nodiscard]] static ChoiceList parse(std::string_view text, const Digest* only = nullptr);
  // At most kMostChoiceBytes: the oldest lines go first.
  [[nodiscard]] std::string encode() const;

  // Of one program of a container on this machine, each variant once: what names the program or, where nothing does, what names none.
  [[nodiscard]] std::vector<RememberedVariant> measured(const Digest& root, const Fingerprints& here, std::string_view program = {}) const;
  [[nodiscard]] std::vector<RememberedFault> faults(const Digest& root, const Fingerprints& here) const;

  // In place of what was measured before of the same programs.
  void put_measured(const Digest& root, const Fingerprints& here, std::span<const RememberedVariant> variants);
  void put_fault(const Digest& root, const Fingerprints& here, std::string_view variant, std::string_view reason);
  // All of one container, on any machine. False: there was nothing.
  bool forget(const Digest& root);

 private:
  std::vector<std::string> lines_;  // well-formed ones, without their ends
};

// The line of a fault, with its end: what a signal handler appends.
[[nodiscard]] std::string fault_line(const Digest& root, const Fingerprints& here, std::string_view variant, std::string_view reason);

// Rejects what failed here. Names in lines that the container has not are passed over. What was rejected is added to `notes`: leaving
// out is never silent.
void apply_faults(const ChoiceList& list, const Digest& root, const Fingerprints& here, std::span<const format::Variant> variants,
                  Matcher& matcher, std::vector<std::string>& notes);
// What was measured of a program, of the variants that fit: for Matcher::remember.
[[nodiscard]] std::vector<MeasuredVariant> measured_of(const ChoiceList& list, const Digest& root, const Fingerprints& here, std::span<const format::Variant> variants,
                                                       const Matcher& matcher, std::string_view program);

}  // namespace mlc::match
