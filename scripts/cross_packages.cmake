# Packages of a cross build. The header-only ones are the host's: each one's own directory is linked into the build tree,
# since /usr/include itself would bring the host's C library headers. GoogleTest is built from Debian's source package.
set(headers "${PROJECT_BINARY_DIR}/host_headers")
file(MAKE_DIRECTORY "${headers}")
foreach(header IN ITEMS nlohmann/json.hpp CLI/CLI.hpp libfccp/csv.h)
  get_filename_component(directory "${header}" DIRECTORY)
  find_path(host_${directory} "${header}" PATHS /usr/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  file(CREATE_LINK "${host_${directory}}/${directory}" "${headers}/${directory}" SYMBOLIC)
endforeach()

add_library(host_headers INTERFACE)
target_include_directories(host_headers SYSTEM INTERFACE "${headers}")
link_libraries(host_headers)
add_library(nlohmann_json::nlohmann_json ALIAS host_headers)
add_library(CLI11::CLI11 ALIAS host_headers)

if(SPILLWAY_TESTS)
  set(INSTALL_GTEST OFF)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
  add_subdirectory(/usr/src/googletest "${PROJECT_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL)
endif()
