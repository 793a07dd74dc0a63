// The rules of layout (README.md, "Rooms"), as functions over a directory root: run on this
// checkout, which must be clean, and on small bad trees, which must not be. Says nothing about what
// the code does.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int max_lines = 400;

struct Room {
  std::string_view name;
  std::vector<std::string_view> may_include;  // besides itself
};

const std::vector<Room>& rooms() {
  static const std::vector<Room> table = {
      {"nvtx", {}},
      {"harness", {"nvtx"}},
      {"workloads", {"harness", "nvtx"}},
      {"offload", {"harness", "nvtx"}},
      {"reports", {"harness", "nvtx"}},
      {"sweeps", {"workloads", "offload", "reports", "harness", "nvtx"}},
  };
  return table;
}

constexpr std::array<std::string_view, 5> banned_directories = {"src", "include", "common", "utils",
                                                                "detail"};

bool contains(const auto& range, std::string_view value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

const Room* find_room(std::string_view name) {
  const auto& table = rooms();
  const auto it =
      std::find_if(table.begin(), table.end(), [&](const Room& room) { return room.name == name; });
  return it == table.end() ? nullptr : &*it;
}

// Paths relative to `root` of all directories or regular files, sorted; hidden directories and what
// the scripts generate (build*/, results/) are left out.
std::vector<fs::path> list_tree(const fs::path& root, fs::file_type wanted) {
  std::vector<fs::path> found;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator();
       ++it) {
    const std::string name = it->path().filename().string();
    const bool generated = it.depth() == 0 && (name.starts_with("build") || name == "results");
    if (it->is_directory() && (name.starts_with(".") || generated)) {
      it.disable_recursion_pending();
    } else if (it->symlink_status().type() == wanted) {
      found.push_back(fs::relative(it->path(), root));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> list_sources(const fs::path& root) {
  std::vector<fs::path> files = list_tree(root, fs::file_type::regular);
  std::erase_if(files, [](const fs::path& path) {
    return !contains(std::array{".h", ".cpp", ".cu", ".cuh"}, path.extension().string());
  });
  return files;
}

std::vector<std::string> read_lines(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

struct Include {
  int line;
  bool quoted;
  std::string path;
};

std::vector<Include> read_includes(const fs::path& path) {
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> includes;
  int number = 0;
  for (const std::string& line : read_lines(path)) {
    ++number;
    std::smatch match;
    if (std::regex_search(line, match, pattern)) {
      includes.push_back({number, match[1] == "\"", match[2]});
    }
  }
  return includes;
}

std::string at(const fs::path& file, const Include& include) {
  return file.generic_string() + ":" + std::to_string(include.line) + ": includes " + include.path;
}

// One sentence for each include of a room that goes against `nvtx <- harness <- workloads | offload
// | reports <- sweeps` or does not start at the root. Tests may include anything.
std::vector<std::string> wrong_includes(const fs::path& root) {
  std::vector<std::string> errors;
  for (const fs::path& file : list_sources(root)) {
    const Room* room = find_room(file.begin()->string());
    if (room == nullptr) continue;
    for (const Include& include : read_includes(root / file)) {
      const std::string target = fs::path(include.path).begin()->string();
      const bool ours = find_room(target) != nullptr;
      if (include.quoted && !ours) {
        errors.push_back(at(file, include) + ", which does not start with a room");
      } else if (ours && target != room->name && !contains(room->may_include, target)) {
        errors.push_back(at(file, include) + ", which " + std::string(room->name) + "/ may not");
      }
    }
  }
  return errors;
}

bool is_cuda_header(const std::string& path) {
  static const std::regex pattern(
      R"(^(cuda|cublas|cudnn|nccl|cupti|nvml|nvrtc|curand|cooperative_groups|device_launch_parameters|mma\.h|thrust/|cub/|cutlass/|cute/))");
  return std::regex_search(path, pattern);
}

// CUDA headers and CUDA source belong to harness/cuda/ alone; CUDA source also to its tests.
std::vector<std::string> misplaced_cuda(const fs::path& root) {
  std::vector<std::string> errors;
  for (const fs::path& file : list_sources(root)) {
    const std::string name = file.generic_string();
    if (name.starts_with("harness/cuda/")) continue;
    if (file.extension().string().starts_with(".cu") && !name.starts_with("tests/cuda/")) {
      errors.push_back(name + ": CUDA source outside harness/cuda/");
    }
    for (const Include& include : read_includes(root / file)) {
      if (is_cuda_header(include.path)) {
        errors.push_back(at(file, include) + " outside harness/cuda/");
      }
    }
  }
  return errors;
}

std::vector<std::string> long_files(const fs::path& root) {
  std::vector<std::string> errors;
  for (const fs::path& file : list_sources(root)) {
    const std::size_t lines = read_lines(root / file).size();
    if (lines > max_lines) {
      errors.push_back(file.generic_string() + ": " + std::to_string(lines) + " lines");
    }
  }
  return errors;
}

std::vector<std::string> banned_names(const fs::path& root) {
  std::vector<std::string> errors;
  for (const fs::path& directory : list_tree(root, fs::file_type::directory)) {
    if (contains(banned_directories, directory.filename().string())) {
      errors.push_back(directory.generic_string() + "/: not a name of a directory here");
    }
  }
  return errors;
}

// ---- this checkout

TEST(Structure, IncludesGoOneWay) { EXPECT_THAT(wrong_includes(SPILLWAY_SOURCE_DIR), IsEmpty()); }
TEST(Structure, CudaStaysInItsRoom) { EXPECT_THAT(misplaced_cuda(SPILLWAY_SOURCE_DIR), IsEmpty()); }
TEST(Structure, FilesAreShort) { EXPECT_THAT(long_files(SPILLWAY_SOURCE_DIR), IsEmpty()); }
TEST(Structure, DirectoriesHaveNames) { EXPECT_THAT(banned_names(SPILLWAY_SOURCE_DIR), IsEmpty()); }
TEST(Structure, ThereIsSomethingToCheck) {
  EXPECT_GT(list_sources(SPILLWAY_SOURCE_DIR).size(), 1U);
}

// ---- trees that break the rules

class BadTree : public testing::Test {
 protected:
  BadTree()
      : root_(fs::path(testing::TempDir()) /
              ("structure_" +
               std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    fs::remove_all(root_);
  }
  ~BadTree() override { fs::remove_all(root_); }

  void write(const std::string& path, std::string_view text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

TEST_F(BadTree, IncludeAgainstTheDirection) {
  write("nvtx/range.h", "#include \"harness/program.h\"\n");
  write("harness/program.cpp",
        "#include <vector>\n#include \"harness/program.h\"\n  # include \"sweeps/run.h\"\n");
  write("offload/policy.cpp", "#include \"harness/program.h\"\n#include <workloads/llama.h>\n");
  write("sweeps/run.cpp", "#include \"workloads/llama.h\"\n#include \"nvtx/range.h\"\n");
  write("tests/harness/program_test.cpp", "#include \"sweeps/run.h\"\n");
  EXPECT_THAT(
      wrong_includes(root()),
      ElementsAre("harness/program.cpp:3: includes sweeps/run.h, which harness/ may not",
                  "nvtx/range.h:1: includes harness/program.h, which nvtx/ may not",
                  "offload/policy.cpp:2: includes workloads/llama.h, which offload/ may not"));
}

TEST_F(BadTree, SiblingsDoNotKnowEachOther) {
  constexpr std::array<std::string_view, 3> siblings = {"workloads", "offload", "reports"};
  for (std::string_view from : siblings) {
    for (std::string_view to : siblings) {
      if (from != to) {
        write(std::string(from) + "/" + std::string(to) + "_user.cpp",
              "#include \"" + std::string(to) + "/x.h\"\n");
      }
    }
  }
  EXPECT_EQ(wrong_includes(root()).size(), 6U);
}

TEST_F(BadTree, IncludeThatDoesNotStartAtTheRoot) {
  write("harness/ops/add.cpp", "#include \"add.h\"\n#include \"../program.h\"\n");
  EXPECT_THAT(wrong_includes(root()), ElementsAre(HasSubstr("add.cpp:1: includes add.h"),
                                                  HasSubstr("add.cpp:2: includes ../program.h")));
}

TEST_F(BadTree, CudaOutsideItsRoom) {
  write("harness/cuda/stream.h", "#include <cuda_runtime_api.h>\n#include <cublasLt.h>\n");
  write("harness/cpu/gemm.cpp", "#include <cublasLt.h>\n#include \"harness/cuda/executor.h\"\n");
  write("nvtx/range.cpp", "#include <nvtx3/nvToolsExt.h>\n");
  write("sweeps/kernel.cu", "");
  write("tests/cuda/add_test.cpp", "#include <cuda_runtime.h>\n");
  EXPECT_THAT(misplaced_cuda(root()),
              ElementsAre(HasSubstr("gemm.cpp:1: includes cublasLt.h"),
                          HasSubstr("sweeps/kernel.cu: CUDA source"),
                          HasSubstr("add_test.cpp:1: includes cuda_runtime.h")));
}

TEST_F(BadTree, LongFile) {
  std::string text;
  for (int i = 0; i < max_lines; ++i)
    text += "\n";
  write("harness/fits.cpp", text);
  write("harness/long.h", text + "\n");
  write("tests/harness/long_test.cpp", text + "// last line without newline");
  write("harness/long.md", text + text);
  write("build/release/generated.cpp", text + text);
  EXPECT_THAT(long_files(root()),
              ElementsAre("harness/long.h: 401 lines", "tests/harness/long_test.cpp: 401 lines"));
}

TEST_F(BadTree, BannedDirectory) {
  write("src/x.cpp", "");
  write("harness/detail/x.h", "");
  write("harness/common.h", "");
  write("build/release/include/x.h", "");
  EXPECT_THAT(banned_names(root()), ElementsAre(HasSubstr("harness/detail/"), HasSubstr("src/")));
}

}  // namespace
