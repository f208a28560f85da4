# A room of the house: an object library that sees only the rooms it may include.
# Each room has an include root of its own (build/include/ROOM/levin/ROOM -> ROOM/), so that an include against the
# house's direction does not compile.
set(LEVIN_ROOM_NAMES core data optim callbacks loggers strategies cli)
foreach(room IN LISTS LEVIN_ROOM_NAMES)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include/${room}/levin)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${room} ${PROJECT_BINARY_DIR}/include/${room}/levin/${room} SYMBOLIC)
endforeach()

# levin_add_pch(TARGET headers...): precompiles headers of torch, for levin_use_pch.
# GCC instantiates what torch's inline functions need once more in every source that reads a precompiled header. So the rooms have
# one that holds only what they include, which takes 3 s; tests read all of torch, which takes 7 s.
function(levin_add_pch target)
  if(LEVIN_PCH)
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    target_link_libraries(${target} PRIVATE levin_torch)
  endif()
endfunction()
levin_add_pch(levin_room_pch <torch/nn/module.h> <torch/optim/optimizer.h> <torch/csrc/distributed/c10d/ProcessGroup.hpp>)
levin_add_pch(levin_pch <torch/torch.h>)

# levin_use_pch(TARGET [PCH]): lets a target reuse a precompiled header, levin_pch unless another is named.
function(levin_use_pch target)
  if(LEVIN_PCH)
    list(APPEND ARGN levin_pch)
    list(GET ARGN 0 pch)
    target_precompile_headers(${target} REUSE_FROM ${pch})
    # The header is compiled with -fPIC; a program, which CMake would compile with -fPIE, has to agree.
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# levin_add_room(TARGET [TORCH] SEES rooms... SOURCES files...)
# TORCH: the sources may include torch; without it torch's headers are out of reach.
function(levin_add_room target)
  cmake_parse_arguments(ROOM "TORCH" "" "SEES;SOURCES;LINK" ${ARGN})
  add_library(${target} OBJECT ${ROOM_SOURCES})
  foreach(room IN LISTS ROOM_SEES)
    target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/include/${room})
  endforeach()
  target_link_libraries(${target} PRIVATE levin_warnings Threads::Threads ${ROOM_LINK})
  if(ROOM_TORCH)
    target_link_libraries(${target} PRIVATE levin_torch)
    levin_use_pch(${target} levin_room_pch)
  endif()
  # Several sources are compiled as one, since most of the time goes into the headers that they share.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${LEVIN_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  set_property(GLOBAL APPEND PROPERTY LEVIN_ROOMS ${target})
endfunction()

# The levin program: a main() that loads the library.
function(levin_add_program)
  add_executable(levin_program ${PROJECT_SOURCE_DIR}/cli/main.cpp)
  # Where the library is beside the program, in the build tree and in the installed one.
  set(folders "$ORIGIN/../lib" "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  list(REMOVE_DUPLICATES folders)
  set_target_properties(levin_program PROPERTIES OUTPUT_NAME levin EXPORT_NAME program INSTALL_RPATH "${folders}")
  target_include_directories(levin_program PRIVATE ${PROJECT_BINARY_DIR}/include/core)
  # It loads the library itself: see its main().
  target_compile_definitions(levin_program PRIVATE "LEVIN_LIBRARY=\"$<TARGET_SONAME_FILE_NAME:levin>\"")
  target_link_libraries(levin_program PRIVATE levin_warnings ${CMAKE_DL_LIBS})
  add_dependencies(levin_program levin)
endfunction()
