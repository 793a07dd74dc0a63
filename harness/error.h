// Errors: what a user did wrong or a device refused is thrown as an Error; our own mistakes are
// checks with a sentence. Nothing here exits; `main` turns an Error into an exit code.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace spillway {

// A user's mistake or bad input. The message names the file, line or key, what was found and what
// was expected. Exit code 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A run that could not be carried out (a device refused, a check of values failed). Exit code 1.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Joins its arguments with operator<<.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Our own mistake: a broken invariant. Throws std::logic_error with the sentence given.
template <class... Parts>
void check(bool holds, const Parts&... sentence) {
  if (!holds) throw std::logic_error(text(sentence...));
}

}  // namespace spillway
