# A room: an object library that sees only what it may include, each from its own include root:
#   build/include/ROOM          the whole room, for itself and the tests
#   build/include/api/ROOM      its public headers (ROOM/public_headers.txt): for other rooms and for users; these are installed
#   build/include/basics        text, files, numbers, time and drawing of core (core/basic_headers.txt), for any room
#   build/include/floors/R/F    the floor F of the room R, whose floors are listed in R/floors.txt
#   build/include/generated     what CMake writes
set(LEVIN_ROOM_NAMES core data images columns text models optim callbacks metrics exported loggers rl strategies cli c)

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

# Makes an include root of each floor of a room, and sets LEVIN_FLOOR_<room>_<floor>, for SEES: its root and those of the floors
# below. A file that includes what stands on a higher floor does not compile.
function(levin_make_floors room)
  set(source ${PROJECT_SOURCE_DIR}/${room})
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source}/floors.txt)
  file(STRINGS ${source}/floors.txt floors REGEX "^[a-z]+:")
  set(roots generated)
  foreach(floor IN LISTS floors)
    string(REGEX MATCH "^([a-z]+): *(.*)$" matched "${floor}")
    set(name ${CMAKE_MATCH_1})
    string(REPLACE " " ";" folders "${CMAKE_MATCH_2}")
    set(place ${PROJECT_BINARY_DIR}/include/floors/${room}/${name}/levin/${room})
    file(REMOVE_RECURSE ${place})
    file(MAKE_DIRECTORY ${place})
    foreach(folder IN LISTS folders)
      set(entries ${folder})
      if(folder STREQUAL ".") # the headers that stand in the room itself
        file(GLOB entries CONFIGURE_DEPENDS RELATIVE ${source} ${source}/*.h)
      endif()
      foreach(entry IN LISTS entries)
        cmake_path(GET entry PARENT_PATH parent)
        file(MAKE_DIRECTORY ${place}/${parent})
        file(CREATE_LINK ${source}/${entry} ${place}/${entry} SYMBOLIC)
      endforeach()
    endforeach()
    list(APPEND roots floors/${room}/${name})
    set(LEVIN_FLOOR_${room}_${name} ${roots} PARENT_SCOPE)
  endforeach()
endfunction()

# levin_sources(OUT folders... [EXCEPT files...]): the sources in these folders of a room; CMake finds new ones by itself.
function(levin_sources out)
  cmake_parse_arguments(IN "" "" "EXCEPT" ${ARGN})
  set(patterns "")
  foreach(folder IN LISTS IN_UNPARSED_ARGUMENTS)
    cmake_path(SET pattern NORMALIZE "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
    list(APPEND patterns ${pattern})
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${patterns})
  list(REMOVE_ITEM sources ${IN_EXCEPT})
  set(${out} ${sources} PARENT_SCOPE)
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

# What plug-ins are stamped with: a hash of all public headers, made again when one of them changes. And the header with all of them.
set(headers_and_hashes "")
set(levin_h_includes core/version.h)
foreach(room IN LISTS LEVIN_ROOM_NAMES)
  file(STRINGS ${PROJECT_SOURCE_DIR}/${room}/public_headers.txt headers)
  foreach(header IN LISTS headers)
    file(SHA256 ${PROJECT_SOURCE_DIR}/${room}/${header} hash)
    string(APPEND headers_and_hashes "${room}/${header} ${hash}\n")
    list(APPEND levin_h_includes ${room}/${header})
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/${header})
  endforeach()
endforeach()
string(SHA256 LEVIN_HEADERS_HASH "${headers_and_hashes}")
string(SUBSTRING ${LEVIN_HEADERS_HASH} 0 16 LEVIN_HEADERS_HASH)
list(SORT levin_h_includes)
list(TRANSFORM levin_h_includes REPLACE "(.+)" "#include \"levin/\\1\"\n")
string(CONCAT levin_h_includes ${levin_h_includes})
configure_file(cmake/levin.h.in ${PROJECT_BINARY_DIR}/include/generated/levin/levin.h @ONLY)
configure_file(core/headers_hash.h.in ${PROJECT_BINARY_DIR}/include/generated/levin/core/headers_hash.h @ONLY)
levin_make_floors(core)
levin_make_floors(strategies)

# What each room but core sees of core.
set(LEVIN_BELOW api/core basics generated)

# levin_add_pch(TARGET headers... [LINK libraries...]): precompiles headers, for levin_use_pch.
# GCC instantiates what torch's inline functions need once more in every source that reads a precompiled header. So the rooms have
# one that holds only what they include, which takes 3 s; tests read all of torch, which takes 7 s. CMake wants a source that could
# read the header; it is not compiled, which would take as long.
function(levin_add_pch target)
  cmake_parse_arguments(PCH "" "" "LINK" ${ARGN})
  if(LEVIN_PCH)
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/cmake/pch.cpp PROPERTIES HEADER_FILE_ONLY ON)
    target_precompile_headers(${target} PRIVATE ${PCH_UNPARSED_ARGUMENTS})
    target_link_libraries(${target} PRIVATE levin_source_names ${PCH_LINK})
  endif()
endfunction()
levin_add_pch(levin_plain_pch <algorithm> <array> <chrono> <cmath> <filesystem> <fstream> <functional> <iostream> <map> <memory>
  <optional> <set> <span> <sstream> <string> <system_error> <variant> <vector>)
levin_add_pch(levin_room_pch <torch/nn/module.h> <torch/optim/optimizer.h> <torch/csrc/distributed/c10d/ProcessGroup.hpp> LINK levin_torch)
levin_add_pch(levin_pch <torch/torch.h> LINK levin_torch)
# Tests do their work in levin and LibTorch, so they are not optimized; GCC takes a header that was precompiled in the same way only.
set(levin_quick_flags "")
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT LEVIN_SANITIZE)
  set(levin_quick_flags -O0)
endif()
levin_add_pch(levin_quick_pch <torch/torch.h> LINK levin_torch)
if(LEVIN_PCH)
  target_compile_options(levin_quick_pch PRIVATE ${levin_quick_flags})
endif()

# levin_use_pch(TARGET [PCH]): lets a target reuse a precompiled header, levin_pch unless another is named.
function(levin_use_pch target)
  if(LEVIN_PCH)
    list(APPEND ARGN levin_pch)
    list(GET ARGN 0 pch)
    target_precompile_headers(${target} REUSE_FROM ${pch})
    # The header is compiled with -fPIC; a program, which CMake would compile with -fPIE, has to agree.
    target_compile_options(${target} PRIVATE -fPIC)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      # GCC 12 does not know that what comes out of the header is the system's, and takes std::string's short texts for overflows.
      target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
    endif()
  endif()
endfunction()

# levin_compile_quickly(TARGET): for a program that includes torch and whose own code is not what takes its time. Not for a plug-in: levin
# warns of one that was compiled without optimization.
function(levin_compile_quickly target)
  target_compile_options(${target} PRIVATE ${levin_quick_flags})
  levin_use_pch(${target} levin_quick_pch)
endfunction()

set(levin_seldom_flags "")
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(levin_seldom_flags -O1)
endif()

# levin_add_room(TARGET [TORCH] [EACH_STEP] SEES roots... SOURCES files...)
# SEES: folders of build/include.
# EACH_STEP: what runs in each step, or in each log(), is optimized more; for the rest a compiler takes a quarter less time.
# TORCH: the sources may include torch; without it torch's headers are out of reach.
function(levin_add_room target)
  cmake_parse_arguments(ROOM "TORCH;EACH_STEP" "" "SEES;SOURCES;LINK" ${ARGN})
  add_library(${target} OBJECT ${ROOM_SOURCES})
  foreach(root IN LISTS ROOM_SEES)
    target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/include/${root})
  endforeach()
  target_compile_definitions(${target} PRIVATE LEVIN_BUILDS_ITSELF) # no plug-in: registry.h
  target_link_libraries(${target} PRIVATE levin_warnings levin_source_names Threads::Threads ${ROOM_LINK})
  if(ROOM_TORCH)
    target_link_libraries(${target} PRIVATE levin_torch)
    levin_use_pch(${target} levin_room_pch)
  else()
    levin_use_pch(${target} levin_plain_pch)
  endif()
  if(NOT ROOM_EACH_STEP)
    target_compile_options(${target} PRIVATE ${levin_seldom_flags})
  endif()
  # Several sources are compiled as one, since most of the time goes into the headers that they share.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${LEVIN_UNITY} UNITY_BUILD_BATCH_SIZE 24)
  set_property(GLOBAL APPEND PROPERTY LEVIN_ROOMS ${target})
endfunction()

# levin_link_rooms(PROGRAM rooms...): links only these rooms into a test, instead of the whole library.
function(levin_link_rooms target)
  foreach(room IN LISTS ARGN)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${room}>)
  endforeach()
  target_include_directories(${target} PRIVATE ${LEVIN_ALL_ROOTS})
  target_link_libraries(${target} PRIVATE fmt::fmt PNG::PNG Agg::agg Threads::Threads ${CMAKE_DL_LIBS} rt)
endfunction()

# The levin program: a main() that loads the library.
function(levin_add_program)
  add_executable(levin_program ${PROJECT_SOURCE_DIR}/cli/main.cpp ${PROJECT_SOURCE_DIR}/cli/libtorch_at_hand.cpp)
  # Where the library is next to the program, in the build tree and in the installed one, and LibTorch.
  set(folders "$ORIGIN/../lib" "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" ${levin_torch_rpath})
  list(REMOVE_DUPLICATES folders)
  set_target_properties(levin_program PROPERTIES OUTPUT_NAME levin EXPORT_NAME program INSTALL_RPATH "${folders}")
  target_include_directories(levin_program PRIVATE ${PROJECT_BINARY_DIR}/include/core ${PROJECT_BINARY_DIR}/include/cli)
  # It loads the library itself: see its main().
  target_compile_definitions(levin_program PRIVATE "LEVIN_LIBRARY=\"$<TARGET_SONAME_FILE_NAME:levin>\""
                                                   "LEVIN_TORCH_VERSION=\"${LEVIN_TORCH_VERSION}\"")
  target_link_libraries(levin_program PRIVATE levin_warnings levin_source_names ${CMAKE_DL_LIBS})
  add_dependencies(levin_program levin)
endfunction()
