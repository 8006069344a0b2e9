#include "base/system/siphash.h"

#include <sys/auxv.h>
#include <sys/random.h>

namespace mlc {
namespace {

SipKey random_key() {
  SipKey key{};
  if (getrandom(key.data(), sizeof key, GRND_NONBLOCK) == static_cast<ssize_t>(sizeof key)) return key;
  // 16 bytes that the kernel gives every process.
  if (const auto* bytes = reinterpret_cast<const void*>(getauxval(AT_RANDOM))) std::memcpy(key.data(), bytes, sizeof key);
  return key;
}

}  // namespace

SipKey process_sip_key() {
  static const SipKey key = random_key();
  return key;
}

}  // namespace mlc
