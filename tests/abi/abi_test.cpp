// The program of the kept header, run with the library of this build.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/api_sample.h"

using namespace mlc;
using namespace mlc::test;

TEST_CASE("a program of version 1 runs with the library of today") {
  const ApiSample& s = api_sample();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::execl(MLC_USER_1, MLC_USER_1, s.signed_file.c_str(), s.public_key_file.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
