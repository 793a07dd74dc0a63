# What scripts/gpu_check.sh runs on a GPU, and its tests on a stand-in (tests/cuda/): parts in tests/gpu/, over the shared
# op-case table. Needs no GoogleTest.
file(GLOB table_sources CONFIGURE_DEPENDS tests/support/op_*.cpp)
add_library(op_table STATIC ${table_sources})
target_link_libraries(op_table PUBLIC spillway_harness)

file(GLOB part_sources CONFIGURE_DEPENDS tests/gpu/*.cpp)
list(FILTER part_sources EXCLUDE REGEX "/main\\.cpp$")
add_library(gpu_check STATIC ${part_sources} tests/sweeps/support_runs.cpp)
target_link_libraries(gpu_check PUBLIC op_table spillway_sweeps)

add_executable(spillway_gpu_check tests/gpu/main.cpp)
target_link_libraries(spillway_gpu_check PRIVATE gpu_check)
