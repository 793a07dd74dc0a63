// The file of chosen algorithms, and the choice: no GPU, no library.
#include "harness/cuda/algorithms.h"

#include <cmath>
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Algorithm numbered(uint64_t number) {
  Algorithm algorithm;
  algorithm.words = {number, 0, ~uint64_t{0}, 0x0123456789abcdef, 1, 2, 3, number};
  return algorithm;
}

// A path in a directory that does not exist yet.
class AlgorithmFiles : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::filesystem::path file() const { return directory_ / "some" / "algorithms.json"; }
  void write(const std::string& contents) const {
    std::filesystem::create_directories(file().parent_path());
    std::ofstream(file()) << contents;
  }

 private:
  std::filesystem::path directory_ = std::filesystem::path(testing::TempDir()) /
                                     testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST(AlgorithmChoice, IsTheLowestMedianNotTheLowestTiming) {
  int calls = 0;
  std::vector<uint64_t> order;
  const auto seconds = [&](const Algorithm& algorithm) {
    const uint64_t number = algorithm.words[0];
    order.push_back(number);
    const int round = calls++ / 3;
    if (number == 1) return round == 0 ? 1.0 : 5.0;  // once very fast
    if (number == 2) return round < 2 ? 90.0 : 3.0;  // twice disturbed
    return 4.0;
  };
  const std::optional<Choice> choice = choose({numbered(1), numbered(2), numbered(3)}, seconds);
  ASSERT_TRUE(choice);
  EXPECT_EQ(*choice, (Choice{numbered(2), 3.0}));
  ASSERT_EQ(order.size(), 15u);
  EXPECT_THAT(std::vector(order.begin(), order.begin() + 4), ElementsAre(1, 2, 3, 1)) << "in turn";
}

TEST(AlgorithmChoice, OfEqualsTakesTheLibrarysFirstAndOfNoneNone) {
  const auto same = [](const Algorithm&) { return 1.0; };
  EXPECT_EQ(choose({numbered(7), numbered(5)}, same)->algorithm, numbered(7));
  EXPECT_FALSE(choose({}, same));
}

TEST_F(AlgorithmFiles, GiveBackWhatWasPutIn) {
  AlgorithmFile made(file(), "GPU a");
  EXPECT_EQ(made.find("p"), nullptr);
  made.add("p", {numbered(1), 0.1});
  made.save();
  const AlgorithmFile read(file(), "GPU a");
  ASSERT_NE(read.find("p"), nullptr);
  EXPECT_EQ(*read.find("p"), (Choice{numbered(1), 0.1}));
  EXPECT_EQ(read.find("q"), nullptr);
  EXPECT_EQ(AlgorithmFile(file(), "GPU b").find("p"), nullptr) << "of another machine";
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(file().parent_path()))
    left.push_back(entry.path().filename());
  EXPECT_THAT(left, ElementsAre("algorithms.json")) << "nothing beside it is left behind";
}

TEST_F(AlgorithmFiles, KeepOtherMachinesAndWhatAnotherProcessChoseFirst) {
  AlgorithmFile first(file(), "GPU a"), second(file(), "GPU a"), other(file(), "GPU b");
  first.add("p", {numbered(1), 1});
  second.add("p", {numbered(2), 2});
  second.add("q", {numbered(3), 3});
  other.add("p", {numbered(4), 4});
  first.save();
  other.save();
  second.save();
  EXPECT_EQ(second.find("p")->algorithm, numbered(1)) << "both run what the file has";
  const AlgorithmFile a(file(), "GPU a"), b(file(), "GPU b");
  EXPECT_EQ(a.find("p")->algorithm, numbered(1));
  EXPECT_EQ(a.find("q")->algorithm, numbered(3));
  EXPECT_EQ(b.find("p")->algorithm, numbered(4));
}

TEST_F(AlgorithmFiles, ThatAreBrokenOrOfAnotherKindAreRefusedByNameAndKey) {
  const std::string head = R"({"format": "spillway algorithms 1", "machines": )";
  const std::string words(128, 'a');
  const auto entry = [&](const std::string& fields) {
    return head + R"({"GPU a": {"p": {)" + fields + "}}}}";
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "malformed JSON"},
      {"{\"format\": ", "malformed JSON"},
      {"[]", "\"format\""},
      {"{}", "\"format\" is missing"},
      {R"({"format": "spillway algorithms 2", "machines": {}})", "spillway algorithms 2"},
      {R"({"format": "spillway algorithms 1"})", "\"machines\""},
      {head + "[]}", "\"machines\""},
      {head + R"({"GPU a": 3}})", "\"GPU a\""},
      {head + R"({"GPU a": {"p": 3}}})", "\"p\""},
      {entry(R"("seconds": 1)"), "\"algorithm\" is missing"},
      {entry("\"algorithm\": \"" + words + "\""), "\"seconds\" is missing"},
      {entry("\"algorithm\": \"" + words + "\", \"seconds\": -1"), "\"seconds\""},
      {entry("\"algorithm\": \"" + words.substr(1) + "\", \"seconds\": 1"), "128 hexadecimal"},
      {entry("\"algorithm\": \"" + words.substr(1) + "g\", \"seconds\": 1"), "128 hexadecimal"},
      {entry("\"algorithm\": \"-" + words.substr(1) + "\", \"seconds\": 1"), "128 hexadecimal"},
      {entry("\"algorithm\": \"" + words + "\", \"seconds\": 1, \"x\": 1"), "x"},
      {entry("\"seconds\": 1, \"seconds\": 1"), "twice"},
  };
  for (const auto& [contents, says] : cases) {
    write(contents);
    try {
      AlgorithmFile read(file(), "GPU b");
      ADD_FAILURE() << "accepted: " << contents;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(file().string()), HasSubstr(says))) << contents;
    }
  }
  write(entry("\"algorithm\": \"" + words + "\", \"seconds\": 1"));
  EXPECT_EQ(AlgorithmFile(file(), "GPU a").find("p")->algorithm.words[7], 0xaaaaaaaaaaaaaaaa);
}

TEST_F(AlgorithmFiles, ThatCannotBeWrittenAreNamed) {
  AlgorithmFile made(file() / "below", "GPU a");
  write("{}");  // where a directory should be
  made.add("p", {numbered(1), 1});
  try {
    made.save();
    ADD_FAILURE() << "saved";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr((file() / "below").string()));
  }
}

TEST(AlgorithmDefaultFile, IsInTheUsersCache) {
  const char *home = std::getenv("HOME"), *cache = std::getenv("XDG_CACHE_HOME");
  const std::string old_home = home == nullptr ? "" : home,
                    old_cache = cache == nullptr ? "" : cache;
  ASSERT_EQ(setenv("HOME", "/home/u", 1), 0);
  ASSERT_EQ(setenv("XDG_CACHE_HOME", "/cache", 1), 0);
  EXPECT_EQ(default_algorithm_file(), "/cache/spillway/algorithms.json");
  ASSERT_EQ(setenv("XDG_CACHE_HOME", "relative", 1), 0);
  EXPECT_EQ(default_algorithm_file(), "/home/u/.cache/spillway/algorithms.json");
  ASSERT_EQ(unsetenv("XDG_CACHE_HOME"), 0);
  EXPECT_EQ(default_algorithm_file(), "/home/u/.cache/spillway/algorithms.json");
  ASSERT_EQ(unsetenv("HOME"), 0);
  EXPECT_THROW(default_algorithm_file(), InputError);
  if (home != nullptr) setenv("HOME", old_home.c_str(), 1);
  if (cache != nullptr) setenv("XDG_CACHE_HOME", old_cache.c_str(), 1);
}

}  // namespace
}  // namespace spillway
