# Packages from a directory that `scripts/gpu_check.sh --pack` made: header-only libraries, no CMake files of their own.
add_library(packed_headers INTERFACE)
target_include_directories(packed_headers SYSTEM INTERFACE "${SPILLWAY_PACKED}/include")
link_libraries(packed_headers)
add_library(nlohmann_json::nlohmann_json ALIAS packed_headers)
add_library(CLI11::CLI11 ALIAS packed_headers)
