# A room of the house: an object library that sees only the rooms it may include.
# Each room has an include root of its own (build/include/ROOM/levin/ROOM -> ROOM/), so that an include against the
# house's direction does not compile.
set(LEVIN_ROOM_NAMES core callbacks loggers strategies cli)
foreach(room IN LISTS LEVIN_ROOM_NAMES)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include/${room}/levin)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${room} ${PROJECT_BINARY_DIR}/include/${room}/levin/${room} SYMBOLIC)
endforeach()

if(LEVIN_PCH)
  add_library(levin_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
  target_precompile_headers(levin_pch PRIVATE <torch/torch.h>)
  target_link_libraries(levin_pch PRIVATE levin_torch)
endif()

# Lets a target reuse the one precompiled torch/torch.h.
function(levin_use_pch target)
  if(LEVIN_PCH)
    target_precompile_headers(${target} REUSE_FROM levin_pch)
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
    levin_use_pch(${target})
  endif()
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
