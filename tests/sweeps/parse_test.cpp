// Option values: what is refused, and what the message says.
#include "sweeps/parse.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "harness/error.h"

namespace spillway {
namespace {

using testing::HasSubstr;

template <class Parse>
void expect_unparsed(const Parse& parse, const std::vector<std::string>& texts,
                     const char* expected) {
  for (const std::string& text : texts) {
    SCOPED_TRACE("'" + text + "'");
    try {
      parse("--option", text);
      ADD_FAILURE() << "accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("--option"));
      EXPECT_THAT(error.what(), HasSubstr("found '" + text + "'"));
      EXPECT_THAT(error.what(), HasSubstr(expected));
    }
  }
}

// What is no whole number at all, or not all of the text.
const std::vector<std::string> not_whole = {"",    " ",     "x",   "1x",  "1 ",
                                            " 1",  "+1",    "1.0", "1e3", "0x10",
                                            "1,2", "1'000", "--1", "nan", "9223372036854775808"};

TEST(Parse, WholeNumbersAreRefusedUnlessTheWholeTextIsOne) {
  expect_unparsed(parse_positive, not_whole, "at least 1");
  expect_unparsed(parse_positive, {"0", "-1", "-9223372036854775808"}, "at least 1");
  expect_unparsed(parse_non_negative, not_whole, "at least 0");
  expect_unparsed(parse_non_negative, {"-1"}, "at least 0");
}

TEST(Parse, WholeNumbersUpToTheLargest) {
  EXPECT_EQ(parse_positive("--option", "1"), 1);
  EXPECT_EQ(parse_positive("--option", "4294967296"), int64_t{1} << 32);
  EXPECT_EQ(parse_positive("--option", "9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(parse_non_negative("--option", "0"), 0);
}

TEST(Parse, TheUpperLimitIsSaidWhereItIsMissed) {
  expect_unparsed(parse_positive, {"9223372036854775808"},
                  "at least 1 and at most 9223372036854775807");
  expect_unparsed(parse_non_negative, {"99999999999999999999"}, "at most 9223372036854775807");
  const auto up_to_8 = [](const std::string& option, const std::string& text) {
    return parse_count(option, text, 8);
  };
  expect_unparsed(up_to_8, {"9", "9223372036854775807", "9223372036854775808"}, "at most 8");
  expect_unparsed(up_to_8, {"0", "-1", "x"}, "at least 1");
  EXPECT_EQ(up_to_8("--option", "8"), 8);
}

TEST(Parse, RealsArePositiveAndFinite) {
  expect_unparsed(parse_positive_real,
                  {"", "0", "-0.5", "nan", "inf", "1e999", "1.5x", " 1", "1,5"}, "greater than 0");
  EXPECT_EQ(parse_positive_real("--option", "1.5"), 1.5);
  EXPECT_EQ(parse_positive_real("--option", "2e-3"), 0.002);
}

TEST(Parse, OnOff) {
  expect_unparsed(parse_on_off, {"", "On", "true", "1", "on ", "yes"}, "on or off");
  EXPECT_TRUE(parse_on_off("--option", "on"));
  EXPECT_FALSE(parse_on_off("--option", "off"));
}

TEST(Parse, BytesAreRefused) {
  expect_unparsed(parse_bytes,
                  {"", "GiB", "0", "-1", "0GiB", "-1GiB", "nanGiB", "1.5", "1GB", "1gib", "1 GiB",
                   "1GiB ", "1e3", "GiB1", "1KiBKiB"},
                  "bytes");
  expect_unparsed(parse_bytes, {"0.0001KiB", "1e30TiB", "infGiB", "4194304TiB"}, "2^62");
}

TEST(Parse, BytesWithUnits) {
  EXPECT_EQ(parse_bytes("--option", "12345"), 12345);
  EXPECT_EQ(parse_bytes("--option", "1KiB"), 1024);
  EXPECT_EQ(parse_bytes("--option", "1.5MiB"), 1572864);
  EXPECT_EQ(parse_bytes("--option", "70.875GiB"), 76101451776);  // 126 x 576 MiB
  EXPECT_EQ(parse_bytes("--option", "2TiB"), int64_t{1} << 41);
}

}  // namespace
}  // namespace spillway
