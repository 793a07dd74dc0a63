// What a point reads from files of the user: part of its key, so that a changed file is a new point.
#pragma once

#include <map>
#include <string>

#include "sweeps/point.h"

namespace spillway {

// Reads each file once, so that all points of one sweep see the same content.
class InputDigests {
 public:
  // "model 0123456789abcdef, machine ...": FNV-1a (64 bits) of the files that the point's model,
  // machine, profile and link name. Empty when all are shipped; a file that cannot be read counts for
  // nothing here, as the point itself fails by it.
  std::string of(const Point& point);

 private:
  const std::string& of_file(const std::string& path);

  std::map<std::string, std::string> by_path_;
};

}  // namespace spillway
