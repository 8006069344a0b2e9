#include "registry/net/certificates.h"

#include <unistd.h>

namespace mlc::registry {
namespace {

// Debian and its like, Fedora and RHEL, openSUSE, Alpine and Arch.
constexpr const char* kCertificateFiles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                             "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

bool can_read(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

}  // namespace

std::string other_certificate_file(const char* built_in, const std::string& root) {
  if (built_in != nullptr && can_read(root + built_in)) return {};
  for (const char* const path : kCertificateFiles) {
    if (can_read(root + path)) return root + path;
  }
  return {};
}

}  // namespace mlc::registry
