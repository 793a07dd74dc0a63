// What the tests of config.json readers share.
#pragma once

#include <functional>
#include <string>

#include "harness/error.h"

namespace spillway {

inline std::string case_path(const std::string& file) {
  return std::string(SPILLWAY_SOURCE_DIR) + "/tests/workloads/cases/" + file;
}

// What an InputError thrown by `call` says.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace spillway
