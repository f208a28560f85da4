#include "levin/core/base/amounts.h"

#include <catch2/catch.hpp>

using levin::bytes_text;
using levin::seconds_text;

TEST_CASE("seconds are shown in the unit in which they have few digits") {
  CHECK(seconds_text(0) == "0.0 us");
  CHECK(seconds_text(12.34e-6) == "12.3 us");
  CHECK(seconds_text(3.5e-3) == "3.50 ms");
  CHECK(seconds_text(0.25) == "250.00 ms");
  CHECK(seconds_text(1.25) == "1.25 s");
}

TEST_CASE("bytes are shown with three digits, in the unit that leaves no more") {
  constexpr double kKibi = 1024;
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(1000) == "0.977 KiB");
  CHECK(bytes_text(kKibi) == "1 KiB");
  CHECK(bytes_text(1023.7 * kKibi) == "1 MiB");
  CHECK(bytes_text(1.5 * kKibi * kKibi * kKibi) == "1.5 GiB");
  CHECK(bytes_text(5000 * kKibi * kKibi * kKibi * kKibi) == "5e+03 TiB");
}
