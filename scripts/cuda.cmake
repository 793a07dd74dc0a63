# The CUDA toolkit: whether there is one, the language, what it is compiled for.
#   SPILLWAY_HAVE_CUDA         0 or 1
#   CMAKE_CUDA_ARCHITECTURES   as given (preset `cuda`: all targets), else those of this machine's GPUs, else 90a
# The program must start where there is no driver and no CUDA library: it never links libcuda, the runtime is linked
# statically where the toolkit has it so, and cuBLASLt and NCCL are opened when they are first needed. AUTO leaves CUDA out of cross builds and of
# debug builds, which mean sanitizers: what they look at compiles without it.
set(SPILLWAY_HAVE_CUDA 0)
if(SPILLWAY_CUDA STREQUAL "OFF")
  set(look_for_cuda FALSE)
elseif(SPILLWAY_CUDA STREQUAL "ON")
  set(look_for_cuda TRUE)
elseif(CMAKE_CROSSCOMPILING OR CMAKE_BUILD_TYPE STREQUAL "Debug" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(look_for_cuda FALSE)
else()
  set(look_for_cuda TRUE)
endif()

# The compute capabilities of the GPUs here as CMake names them ("90a-real"); empty without a driver.
function(find_local_architectures result)
  set(found "")
  find_program(NVIDIA_SMI nvidia-smi)
  if(NVIDIA_SMI)
    execute_process(COMMAND "${NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE failed)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${capabilities}")
    if(NOT failed)
      foreach(capability IN LISTS capabilities)
        string(REPLACE "." "" number "${capability}")
        if(number MATCHES "^(90|100|103)$")
          string(APPEND number "a")  # architecture-specific instructions: no later GPU has them all
        endif()
        list(APPEND found "${number}-real")
      endforeach()
      list(REMOVE_DUPLICATES found)
    endif()
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

if(look_for_cuda AND NOT CMAKE_CUDA_COMPILER)
  file(GLOB toolkits /usr/local/cuda /usr/local/cuda-*)
  list(TRANSFORM toolkits APPEND /bin)
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin
               PATHS ${toolkits} DOC "CUDA compiler")
endif()
if(SPILLWAY_CUDA STREQUAL "ON" AND NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "SPILLWAY_CUDA is ON and no nvcc was found; expected a CUDA toolkit of 12.8 or later: "
                      "-DCMAKE_CUDA_COMPILER=.../bin/nvcc")
endif()

if(look_for_cuda AND CMAKE_CUDA_COMPILER)
  set(SPILLWAY_HAVE_CUDA 1)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    find_local_architectures(local)
    if(NOT local)
      set(local 90a-real)
    endif()
    set(CMAKE_CUDA_ARCHITECTURES "${local}" CACHE STRING "What CUDA sources are compiled for")
  endif()
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}" CACHE FILEPATH "Host compiler of nvcc")
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  find_package(CUDAToolkit 12.8 REQUIRED)
  if(NOT TARGET CUDA::cudart_static)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  endif()
  list(APPEND CMAKE_BUILD_RPATH "${CUDAToolkit_LIBRARY_DIR}")  # where a library that is opened is looked for
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  foreach(kind IN ITEMS STANDARD EXTENSION)  # CMake 3.25 does not know them
    if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
      set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
    endif()
  endforeach()
endif()

# cuDNN's headers (with the toolkit or in a package) and those of its front end (PyPI: nvidia-cudnn-frontend, which
# scripts/setup.sh --cudnn unpacks below build/deps). The library itself is opened at run time.
set(SPILLWAY_HAVE_CUDNN 0)
set(SPILLWAY_CUDNN AUTO CACHE STRING "Attention by cuDNN: AUTO (when its headers are found) or OFF")
if(SPILLWAY_HAVE_CUDA AND NOT SPILLWAY_CUDNN STREQUAL "OFF")
  file(GLOB python_packages /usr/lib/python3*/*-packages /usr/local/lib/python3*/*-packages)
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${python_packages}
            PATH_SUFFIXES include nvidia/cudnn/include)
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS "${PROJECT_SOURCE_DIR}/build/deps/cudnn-frontend"
            PATHS ${python_packages} PATH_SUFFIXES include)
  if(CUDNN_INCLUDE_DIR AND CUDNN_FRONTEND_INCLUDE_DIR)
    set(SPILLWAY_HAVE_CUDNN 1)
  endif()
endif()

# Of harness/cuda/ the kernels (ops/) exist only with a toolkit; the rest is in every build, calls of the CUDA runtime
# behind `#if SPILLWAY_HAVE_CUDA`.
function(add_cuda_sources target)
  if(NOT SPILLWAY_HAVE_CUDA)
    return()
  endif()
  file(GLOB kernels CONFIGURE_DEPENDS harness/cuda/ops/*.cu harness/cuda/ops/*.cpp)
  target_sources(${target} PRIVATE ${kernels})
  if(TARGET CUDA::cudart_static)
    target_link_libraries(${target} PUBLIC CUDA::cudart_static)
  else()
    target_link_libraries(${target} PUBLIC CUDA::cudart)
  endif()
  list(JOIN CMAKE_CUDA_ARCHITECTURES " " built_for)
  set_source_files_properties(harness/cuda/built_for.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                              COMPILE_DEFINITIONS "SPILLWAY_CUDA_TARGETS=\"${built_for}\"")
  if(SPILLWAY_HAVE_CUDNN)
    set_source_files_properties(harness/cuda/cudnn.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
      SKIP_UNITY_BUILD_INCLUSION ON  # a large header with macros
      COMPILE_DEFINITIONS "SPILLWAY_HAVE_CUDNN=1;NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING;CUDNN_FRONTEND_SKIP_JSON_LIB"
      COMPILE_OPTIONS "-isystem;${CUDNN_FRONTEND_INCLUDE_DIR};-isystem;${CUDNN_INCLUDE_DIR};-isystem;${CUDAToolkit_INCLUDE_DIRS};-O1")
  endif()
  # No -Wpedantic and no warning about casts: what nvcc hands to the host compiler has both.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-lineinfo;-Xcompiler=-Wall,-Wextra>")
endfunction()
