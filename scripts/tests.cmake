# Tests, benchmarks and fuzz targets. One GoogleTest executable per room directory under tests/, named <room>_tests;
# what several rooms' tests share is tests/support/ (library test_support). Tests whose suite name starts with `Threads`
# are those that the thread sanitizer runs (CMakePresets.json, test preset `tsan`).
include(GoogleTest)

set(test_timeout 300)
if(CMAKE_CROSSCOMPILING)
  set(test_timeout 1200)  # under an emulator
endif()

function(spillway_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} spillway_options GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE "SPILLWAY_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")
  # A short build: only what is tested needs to be fast.
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON)
  target_compile_options(${name} PRIVATE -O0)
  if(TARGET nvtx_tests AND NOT name STREQUAL "nvtx_tests")
    target_precompile_headers(${name} REUSE_FROM nvtx_tests)
  else()
    target_precompile_headers(${name} PRIVATE ${precompiled_headers} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  if(SPILLWAY_WHOLE_TESTS)
    # GoogleTest deals its tests out to as many runs; several, so that no executable is left to one processor.
    # The longest begin first.
    set(shards 4)
    set(cost 0)
    if(name STREQUAL "sweeps_tests")
      set(shards 8)
      set(cost 1)
    endif()
    foreach(shard RANGE 1 ${shards})
      math(EXPR index "${shard} - 1")
      add_test(NAME ${name}.${shard} COMMAND ${name} --gtest_brief=1)
      set_tests_properties(${name}.${shard} PROPERTIES TIMEOUT 1800 COST ${cost}
                           ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index}")
    endforeach()
    return()
  endif()
  # PRE_TEST: the executable lists its tests when ctest starts, so a cross build needs no emulator before that.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${test_timeout})
endfunction()

# Removes files without a suite that the thread sanitizer runs from a list of files.
function(keep_thread_tests list)
  set(kept "")
  foreach(source IN LISTS ${list})
    file(STRINGS "${source}" found REGEX "^TEST(_[FP])?\\(Threads" LIMIT_COUNT 1)
    if(found)
      list(APPEND kept "${source}")
    endif()
  endforeach()
  set(${list} "${kept}" PARENT_SCOPE)
endfunction()

include(scripts/gpu_check.cmake)

set(support "")
file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.cpp)
list(FILTER support_sources EXCLUDE REGEX "/op_[^/]*$")  # library op_table
if(support_sources)
  add_library(test_support STATIC ${support_sources})
  target_link_libraries(test_support PUBLIC op_table GTest::gmock)
  target_compile_definitions(test_support PRIVATE "SPILLWAY_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")
  set(support test_support)
endif()

set(cuda_room harness)       # tests/cuda/: of harness/cuda/, by a stand-in for the device
set(cuda_extra gpu_check)
set(cuda_helpers tests/harness/support_cpu.cpp)
set(offload_extra spillway_workloads)  # policies are tested on real workloads; only the tests know both siblings
foreach(room IN ITEMS nvtx harness cuda workloads offload reports sweeps)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS tests/${room}/*_test.cpp)
  if(SPILLWAY_ONLY_THREADS)
    keep_thread_tests(sources)
  endif()
  if(sources)
    file(GLOB helpers CONFIGURE_DEPENDS tests/${room}/support*.cpp)
    list(APPEND sources ${helpers} ${${room}_helpers})
    set(library ${room})
    if(DEFINED ${room}_room)
      set(library ${${room}_room})
    endif()
    spillway_test(${room}_tests SOURCES ${sources} LINKS ${support} spillway_${library} ${${room}_extra})
  endif()
endforeach()

if(TARGET cuda_tests)
  add_library(fake_nvml MODULE tests/cuda/fake_nvml.cpp)  # opened at run time, as the driver's would be
  target_compile_definitions(cuda_tests PRIVATE "FAKE_NVML=\"$<TARGET_FILE:fake_nvml>\""
                                                "GPU_CHECK_DIR=\"$<TARGET_FILE_DIR:spillway_gpu_check>\"")
  add_dependencies(cuda_tests fake_nvml spillway_gpu_check)
  if(SPILLWAY_HAVE_CUDA AND EXISTS "${CUDAToolkit_INCLUDE_DIRS}/cublasLt.h")
    add_library(fake_cublaslt MODULE tests/cuda/fake_cublaslt.cpp)
    target_include_directories(fake_cublaslt SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_options(fake_cublaslt PRIVATE "SHELL:-include cublasLt.h")
    target_compile_definitions(cuda_tests PRIVATE "FAKE_CUBLASLT=\"$<TARGET_FILE:fake_cublaslt>\"")
    add_dependencies(cuda_tests fake_cublaslt)
  endif()
endif()

if(TARGET sweeps_tests)
  # The command line is tested through the program itself, behind the emulator in a cross build.
  set(command ${CMAKE_CROSSCOMPILING_EMULATOR} "$<TARGET_FILE:spillway>")
  list(JOIN command "|" command)
  target_compile_definitions(sweeps_tests PRIVATE "SPILLWAY_COMMAND=\"${command}\"")
  add_dependencies(sweeps_tests spillway)
endif()

file(GLOB structure CONFIGURE_DEPENDS tests/structure_test.cpp)
if(structure)
  spillway_test(structure_test SOURCES ${structure})
endif()

file(GLOB bench_sources CONFIGURE_DEPENDS tests/bench/*_bench.cpp)
if(bench_sources AND benchmark_FOUND AND CMAKE_BUILD_TYPE STREQUAL "Release")  # times of other builds mean nothing
  add_executable(spillway_bench ${bench_sources})
  target_link_libraries(spillway_bench PRIVATE ${support} spillway_sweeps benchmark::benchmark_main)
  target_compile_definitions(spillway_bench PRIVATE "SPILLWAY_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")
endif()

# Points a second: a program of its own, as what it measures is a stream of points that are all different.
if(EXISTS "${PROJECT_SOURCE_DIR}/tests/bench/points_per_second.cpp" AND CMAKE_BUILD_TYPE STREQUAL "Release")
  add_executable(spillway_points tests/bench/points_per_second.cpp)
  target_link_libraries(spillway_points PRIVATE spillway_sweeps)
endif()

# Ops on tensors of more than 2^31 elements: 20 GiB of memory and minutes, so built and run by name only.
file(GLOB large_sources CONFIGURE_DEPENDS tests/bench/large_*.cpp)
if(large_sources AND support)
  add_executable(spillway_large_ops EXCLUDE_FROM_ALL ${large_sources})
  target_link_libraries(spillway_large_ops PRIVATE ${support} spillway_harness)
  set_target_properties(spillway_large_ops PROPERTIES UNITY_BUILD OFF)  # a few files, built by hand
endif()

if(SPILLWAY_FUZZ)
  file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/*.cpp)
  foreach(source IN LISTS fuzz_sources)
    get_filename_component(stem "${source}" NAME_WE)
    add_executable(fuzz_${stem} "${source}")
    target_link_libraries(fuzz_${stem} PRIVATE spillway_sweeps)
    target_link_options(fuzz_${stem} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()
