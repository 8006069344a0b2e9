#include <windows.h>

#include <bcrypt.h>

#include "base/system/siphash.h"

namespace mlc {
namespace {

SipKey random_key() {
  SipKey key{};
  if (BCryptGenRandom(nullptr, reinterpret_cast<PUCHAR>(key.data()), sizeof key, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0) return key;
  // Where a variable lies (the system chooses that for each process), and the time.
  LARGE_INTEGER ticks;
  QueryPerformanceCounter(&ticks);
  return {reinterpret_cast<uintptr_t>(&ticks), static_cast<uint64_t>(ticks.QuadPart) * 0x9e3779b97f4a7c15};
}

}  // namespace

SipKey process_sip_key() {
  static const SipKey key = random_key();
  return key;
}

}  // namespace mlc
