#include "base/text/shell_word.h"

#include <doctest/doctest.h>

using mlc::shell_path;
using mlc::shell_word;

TEST_CASE("words that a shell would read otherwise are quoted") {
  CHECK(shell_word("models/cat-2.mlc") == "models/cat-2.mlc");
  CHECK(shell_word("acme/*") == "'acme/*'");
  CHECK(shell_word("b$(touch X).mlc") == "'b$(touch X).mlc'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("~/x") == "'~/x'");
  CHECK(shell_word("größe") == "'größe'");
}

TEST_CASE("a file is no option") {
  CHECK(shell_path("-f.mlc") == "./-f.mlc");
  CHECK(shell_path("-f g") == "'./-f g'");
  CHECK(shell_path("f.mlc") == "f.mlc");
  CHECK(shell_word("-x/y") == "-x/y");  // a model
}
