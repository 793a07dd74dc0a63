#include "reports/text.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "reports/svg.h"

namespace spillway {
namespace {

TEST(Text, NumbersAndBlanks) {
  EXPECT_EQ(fixed(2.005, 1), "2.0");
  EXPECT_EQ(fixed(-0.001, 2), "0.00");
  EXPECT_EQ(with_sign(2.885, 2), "+2.88");  // 2.885 is below its decimal form in binary
  EXPECT_EQ(with_sign(-3.747, 2), "-3.75");
  EXPECT_EQ(with_sign(0.0, 2), "0.00");
  EXPECT_EQ(with_sign(-1e-9, 2), "0.00");
  EXPECT_EQ(significant(2669, 4), "2669");
  EXPECT_EQ(significant(41352.495, 4), "41352");
  EXPECT_EQ(significant(0.15342, 4), "0.1534");
  EXPECT_EQ(significant(1.5, 4), "1.500");
  EXPECT_EQ(significant(0.0, 4), "0");
  EXPECT_EQ(plain(0.5), "0.5");
  EXPECT_EQ(plain(2000), "2000");
  for (const Number blank :
       {Number(), Number(std::nan("")), Number(-std::numeric_limits<double>::infinity())}) {
    EXPECT_EQ(fixed(blank, 2), "");
    EXPECT_EQ(with_sign(blank, 2), "");
    EXPECT_EQ(significant(blank, 2), "");
    EXPECT_EQ(duration(blank), "");
    EXPECT_EQ(byte_size(blank), "");
    EXPECT_EQ(plain(blank), "");
  }
}

TEST(Text, Units) {
  EXPECT_EQ(duration(15.0594), "15.06 s");
  EXPECT_EQ(duration(0.0317), "31.70 ms");
  EXPECT_EQ(duration(8.25e-6), "8.250 us");
  EXPECT_EQ(plain_duration(0.02), "20 ms");
  EXPECT_EQ(byte_size(603979776), "576.00 MiB");   // Q, K and V of one 405B layer
  EXPECT_EQ(byte_size(76101451776), "70.88 GiB");  // of 126
  EXPECT_EQ(byte_size(1023), "1023 B");
}

TEST(Text, Escaping) {
  EXPECT_EQ(html_escape("a<b>&\"'\x01"), "a&lt;b&gt;&amp;&quot;&#39; ");
  EXPECT_EQ(markdown_escape("a|b\nc\\<d"), "a\\|b<br>c\\\\&lt;d");
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field("a, \"b\"\n"), "\"a, \"\"b\"\"\n\"");
  EXPECT_EQ(shell_quote("a=b,c"), "a=b,c");
  EXPECT_EQ(shell_quote("$(rm) 'x'"), "'$(rm) '\\''x'\\'''");
  EXPECT_EQ(shell_quote(""), "''");
}

TEST(Text, CharactersAreNotBytes) {
  EXPECT_EQ(characters("a\u2013b"), 3);
  EXPECT_EQ(shorten("abc", 3), "abc");
  EXPECT_EQ(shorten("abcd", 3), "ab\u2026");
  EXPECT_EQ(shorten("\u2013\u2013\u2013", 2), "\u2013\u2026");
}

TEST(Svg, StepsAreRound) {
  EXPECT_DOUBLE_EQ(nice_step(2754, 5), 1000);  // 2.8 of them
  EXPECT_DOUBLE_EQ(nice_step(10, 5), 2);
  EXPECT_DOUBLE_EQ(nice_step(0.12, 5), 0.025);
  EXPECT_THROW(nice_step(0, 5), std::logic_error);
}

TEST(Svg, CoordinatesAreShortAndFinite) {
  EXPECT_EQ(coordinate(1.0), "1");
  EXPECT_EQ(coordinate(1.239), "1.24");
  EXPECT_EQ(coordinate(-0.001), "0");
  EXPECT_EQ(coordinate(std::nan("")), "0");
}

TEST(Svg, TextsAndTitlesAreEscaped) {
  Svg svg(10, 20, "a<b");
  svg.text(1, 2, "end", "<t>", "x&y");
  svg.rect({0, 0, -1, 1}, "f", "\"r\"");
  EXPECT_EQ(svg.str(),
            "<svg viewBox=\"0 0 10 20\" role=\"img\" aria-label=\"a&lt;b\">\n"
            "<text x=\"1\" y=\"2\" class=\"end\">&lt;t&gt;<title>x&amp;y</title></text>\n"
            "<rect x=\"0\" y=\"0\" width=\"0\" height=\"1\" "
            "class=\"f\"><title>&quot;r&quot;</title></rect>\n"
            "</svg>\n");
}

}  // namespace
}  // namespace spillway
