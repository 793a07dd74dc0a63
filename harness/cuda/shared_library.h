// A library opened at run time, for what the program must start without.
#pragma once

#include <string>
#include <utility>

#include <dlfcn.h>

#include "harness/error.h"

namespace spillway {

// Stays loaded until the process ends: CUDA's libraries leave memory and threads behind, which would
// point into what is gone.
class SharedLibrary {
 public:
  // Throws RunError with the loader's reason.
  explicit SharedLibrary(const std::string& name)
      : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_NODELETE)) {
    if (handle_ == nullptr) throw RunError(dlerror());
  }
  ~SharedLibrary() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  SharedLibrary(SharedLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  SharedLibrary& operator=(SharedLibrary&&) = delete;
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  // Of type `Function`, a pointer. Throws RunError where the library has none of that name.
  template <class Function>
  Function find(const char* name) const {
    void* const found = dlsym(handle_, name);
    if (found == nullptr) throw RunError(text("no ", name, " in the library found"));
    return reinterpret_cast<Function>(found);
  }

 private:
  void* handle_;
};

}  // namespace spillway
