#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "registry/net/certificates.h"

using namespace mlc::registry;

namespace {

// An empty machine below a folder of its own.
struct Machine {
  Machine() {
    char name[] = "/tmp/mlc-certificates-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    root = name;
  }
  ~Machine() { std::filesystem::remove_all(root); }
  void add(const std::string& path) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << "x";
  }
  std::string root;
};

TEST_CASE("the file that libcurl knows is taken where it is there, else that of the distribution") {
  const Machine machine;
  const char* const built_in = "/etc/ssl/certs/ca-certificates.crt";
  CHECK(other_certificate_file(built_in, machine.root).empty());
  machine.add("/etc/ssl/ca-bundle.pem");
  CHECK(other_certificate_file(built_in, machine.root) == machine.root + "/etc/ssl/ca-bundle.pem");
  CHECK(other_certificate_file(nullptr, machine.root) == machine.root + "/etc/ssl/ca-bundle.pem");
  machine.add("/etc/pki/tls/certs/ca-bundle.crt");
  CHECK(other_certificate_file(built_in, machine.root) == machine.root + "/etc/pki/tls/certs/ca-bundle.crt");
  machine.add(built_in);
  CHECK(other_certificate_file(built_in, machine.root).empty());
  CHECK(other_certificate_file("/usr/share/other.crt", machine.root) == machine.root + built_in);
}

}  // namespace
