#include "base/cli/report.h"

#include <doctest/doctest.h>

using mlc::cli::printable;
using mlc::cli::printable_lines;

TEST_CASE("what a file holds cannot steer a terminal") {
  CHECK(printable("\x1b]0;title\a") == "\\x1b]0;title\\x07");
  CHECK(printable("a\nb\tc\x7f") == "a\\x0ab\\x09c\\x7f");
  CHECK(printable("\xc2\x9b" "31m") == "\\u009b31m");          // CSI as one code point
  CHECK(printable("\xe2\x80\xae" "txt.exe") == "\\u202etxt.exe");  // right to left from here on
  CHECK(printable("\xef\xbb\xbf") == "\\ufeff");
}

TEST_CASE("bytes that are no UTF-8 are shown one by one, text stays as it is") {
  CHECK(printable("\x9b\xc3") == "\\x9b\\xc3");
  CHECK(printable("\xc0\x80") == "\\xc0\\x80");      // overlong
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(printable("Gr\xc3\xbc\xc3\x9f" "e \xf0\x9f\x90\x88") == "Gr\xc3\xbc\xc3\x9f" "e \xf0\x9f\x90\x88");
}

TEST_CASE("lines keep their ends and tabs") { CHECK(printable_lines("a\tb\n\x1b[2J\r\n") == "a\tb\n\\x1b[2J\\x0d\n"); }
