# A room of the house: an object library that sees only what it may include, each from an include root of its own:
#   build/include/ROOM          the whole room, for itself and the tests
#   build/include/api/ROOM      its public headers (ROOM/public_headers.txt): for other rooms and for users; these are installed
#   build/include/basics        text, files, numbers, time and drawing of core (core/basic_headers.txt), for any room
#   build/include/protocol      core/protocol, for strategies, which implement it
#   build/include/generated     what CMake writes
set(LEVIN_ROOM_NAMES core data optim callbacks loggers strategies cli)

# Links what stands in LIST, headers or whole folders of ROOM, into an include root.
function(levin_link_headers root room list)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/${list})
  file(REMOVE_RECURSE ${root}/levin/${room})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${room}/${list} entries)
  foreach(entry IN LISTS entries)
    cmake_path(GET entry PARENT_PATH folder)
    file(MAKE_DIRECTORY ${root}/levin/${room}/${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${room}/${entry} ${root}/levin/${room}/${entry} SYMBOLIC)
  endforeach()
endfunction()

set(LEVIN_API_ROOTS ${PROJECT_BINARY_DIR}/include/generated)
set(LEVIN_ALL_ROOTS ${PROJECT_BINARY_DIR}/include/generated)
foreach(room IN LISTS LEVIN_ROOM_NAMES)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include/${room}/levin)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${room} ${PROJECT_BINARY_DIR}/include/${room}/levin/${room} SYMBOLIC)
  levin_link_headers(${PROJECT_BINARY_DIR}/include/api/${room} ${room} public_headers.txt)
  list(APPEND LEVIN_API_ROOTS ${PROJECT_BINARY_DIR}/include/api/${room})
  list(APPEND LEVIN_ALL_ROOTS ${PROJECT_BINARY_DIR}/include/${room})
endforeach()
levin_link_headers(${PROJECT_BINARY_DIR}/include/basics core basic_headers.txt)

# What plug-ins are stamped with: a hash of all public headers, made again when one of them changes.
set(headers_and_hashes "")
foreach(room IN LISTS LEVIN_ROOM_NAMES)
  file(STRINGS ${PROJECT_SOURCE_DIR}/${room}/public_headers.txt headers)
  foreach(header IN LISTS headers)
    file(SHA256 ${PROJECT_SOURCE_DIR}/${room}/${header} hash)
    string(APPEND headers_and_hashes "${room}/${header} ${hash}\n")
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/${header})
  endforeach()
endforeach()
string(SHA256 LEVIN_HEADERS_HASH "${headers_and_hashes}")
string(SUBSTRING ${LEVIN_HEADERS_HASH} 0 16 LEVIN_HEADERS_HASH)
configure_file(core/headers_hash.h.in ${PROJECT_BINARY_DIR}/include/generated/levin/core/headers_hash.h @ONLY)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include/protocol/levin/core)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/core/protocol ${PROJECT_BINARY_DIR}/include/protocol/levin/core/protocol SYMBOLIC)

# What each room but core sees of core.
set(LEVIN_BELOW api/core basics generated)

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

# levin_add_room(TARGET [TORCH] SEES roots... SOURCES files...)
# SEES: folders of build/include.
# TORCH: the sources may include torch; without it torch's headers are out of reach.
function(levin_add_room target)
  cmake_parse_arguments(ROOM "TORCH" "" "SEES;SOURCES;LINK" ${ARGN})
  add_library(${target} OBJECT ${ROOM_SOURCES})
  foreach(root IN LISTS ROOM_SEES)
    target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/include/${root})
  endforeach()
  target_compile_definitions(${target} PRIVATE LEVIN_BUILDS_ITSELF) # no plug-in: plugin_stamp.h
  target_link_libraries(${target} PRIVATE levin_warnings Threads::Threads ${ROOM_LINK})
  if(ROOM_TORCH)
    target_link_libraries(${target} PRIVATE levin_torch)
    levin_use_pch(${target} levin_room_pch)
  endif()
  # Several sources are compiled as one, since most of the time goes into the headers that they share.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${LEVIN_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  set_property(GLOBAL APPEND PROPERTY LEVIN_ROOMS ${target})
endfunction()

# levin_link_rooms(PROGRAM rooms...): links only these rooms into a test, instead of the whole library.
function(levin_link_rooms target)
  foreach(room IN LISTS ARGN)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${room}>)
  endforeach()
  target_include_directories(${target} PRIVATE ${LEVIN_ALL_ROOTS})
  target_link_libraries(${target} PRIVATE spdlog::spdlog Threads::Threads ${CMAKE_DL_LIBS} rt)
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
