# Finds LibTorch without find_package(Torch), which would enable the CUDA language and link libtorch_cuda.
# Used by levin's own build and by the installed levinConfig.cmake.

# levin_find_torch(OUT VERSION): the folder of a LibTorch (with lib/ and include/), or an empty string.
# Order: Torch_DIR, CMAKE_PREFIX_PATH, OUT's present value, then the folder that `make setup` fills (LEVIN_CACHE, default
# ~/.cache/levin), where only VERSION counts. With LEVIN_CUDA=ON in the environment, one without CUDA's libraries comes last.
function(levin_find_torch out version)
  set(candidates "")
  foreach(folder IN ITEMS "${Torch_DIR}" "$ENV{Torch_DIR}")
    if(folder)
      cmake_path(SET root NORMALIZE "${folder}/../../..")
      string(REGEX REPLACE "/$" "" root "${root}")
      list(APPEND candidates "${root}")
    endif()
  endforeach()
  cmake_path(CONVERT "$ENV{CMAKE_PREFIX_PATH}" TO_CMAKE_PATH_LIST environment_prefixes)
  foreach(prefix IN LISTS CMAKE_PREFIX_PATH environment_prefixes)
    list(APPEND candidates "${prefix}" "${prefix}/torch")
  endforeach()

  set(cache "$ENV{LEVIN_CACHE}")
  if(NOT cache)
    set(cache "$ENV{HOME}/.cache/levin")
  endif()
  if("$ENV{LEVIN_CUDA}" STREQUAL "ON" AND "${${out}}" MATCHES "/torch-[0-9.]+-cpu/torch$")
    list(APPEND candidates "${cache}/torch-${version}-cuda/torch")
  endif()
  if("${${out}}" MATCHES "/torch-${version}-[a-z]+/torch$" OR NOT "${${out}}" MATCHES "/torch-[0-9.]+-[a-z]+/torch$")
    list(APPEND candidates "${${out}}")
  endif()
  list(APPEND candidates "${cache}/torch-${version}-cuda/torch" "${cache}/torch-${version}-cpu/torch")

  foreach(candidate IN LISTS candidates)
    if(EXISTS "${candidate}/lib/libtorch_cpu.so" AND EXISTS "${candidate}/include/ATen/core/Tensor.h")
      set(${out} "${candidate}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${out} "" PARENT_SCOPE)
endfunction()

# levin_read_torch_version(OUT ROOT): "2.13.0".
function(levin_read_torch_version out root)
  set(numbers "")
  foreach(header IN ITEMS torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(NOT numbers AND EXISTS "${root}/include/${header}")
      file(STRINGS "${root}/include/${header}" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
      foreach(line IN LISTS lines)
        string(REGEX MATCH "[0-9]+$" number "${line}")
        list(APPEND numbers "${number}")
      endforeach()
    endif()
  endforeach()
  list(JOIN numbers "." version)
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

# Defines the imported target levin_torch: libtorch_cpu, libc10 and the headers.
function(levin_import_torch root)
  add_library(levin_torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(levin_torch SYSTEM INTERFACE "${root}/include" "${root}/include/torch/csrc/api/include")
  target_compile_definitions(levin_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  target_link_libraries(levin_torch INTERFACE "${root}/lib/libtorch_cpu.so" "${root}/lib/libc10.so")
  # libtorch_cpu.so of the PyPI wheel is linked to CUDA's runtime, which lies next to torch.
  file(GLOB dependencies LIST_DIRECTORIES true "${root}/../nvidia/*/lib")
  foreach(folder IN LISTS dependencies)
    target_link_options(levin_torch INTERFACE "-Wl,-rpath-link,${folder}")
  endforeach()
endfunction()
