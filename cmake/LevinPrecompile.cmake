# Precompiles <levin/levin.h> for one compiler and its flags, unless a project of this machine has done so before:
#   cmake -DCOMPILER=… -DCOMPILER_ID=… -DFLAGS=… -DINCLUDES=… -DLINK=… -P LevinPrecompile.cmake
# The result lies in ~/.cache/levin/precompiled (LEVIN_CACHE names another folder than ~/.cache/levin), or next to LINK where that cannot be
# written, and LINK leads to it. What no project has used for 30 days is removed: a precompiled header is as large as 700 MB.
cmake_minimum_required(VERSION 3.25)
set(thirty_days 2592000)

# Compiles levin_precompiled.h of a folder, under a name that it gets when it is whole.
function(precompile folder)
  file(WRITE ${folder}/levin_precompiled.h "#include <levin/levin.h>\n")
  set(here "")
  if(COMPILER_ID MATCHES "Clang")
    set(here -Xclang -fno-pch-timestamp) # headers that are installed again are the same
  endif()
  execute_process(COMMAND ${COMPILER} ${FLAGS} ${here} -x c++-header ${folder}/levin_precompiled.h -o ${folder}/partial.gch
                  RESULT_VARIABLE status)
  if(status)
    file(REMOVE_RECURSE ${folder})
    message(FATAL_ERROR "<levin/levin.h> cannot be precompiled (see above).")
  endif()
  file(RENAME ${folder}/partial.gch ${folder}/levin_precompiled.h.gch)
endfunction()

function(remove_unused folders)
  string(TIMESTAMP now "%s" UTC)
  file(GLOB stamps ${folders}/*/used)
  foreach(stamp IN LISTS stamps)
    file(TIMESTAMP ${stamp} used "%s" UTC)
    math(EXPR age "${now} - ${used}")
    if(age GREATER thirty_days)
      cmake_path(GET stamp PARENT_PATH folder)
      file(REMOVE_RECURSE ${folder})
    endif()
  endforeach()
endfunction()

set(cache "$ENV{LEVIN_CACHE}")
if(NOT cache)
  set(cache "$ENV{HOME}/.cache/levin")
endif()
set(folders ${cache}/precompiled)
execute_process(COMMAND ${CMAKE_COMMAND} -E make_directory ${folders} RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
if(status OR NOT cache MATCHES "^/.*[^/]")
  cmake_path(GET LINK PARENT_PATH folders)
endif()

execute_process(COMMAND ${COMPILER} --version OUTPUT_VARIABLE version)
set(identity "${COMPILER}\n${version}\n${FLAGS}\n")
foreach(header IN ITEMS levin/core/headers_hash.h levin/core/version.h torch/headeronly/version.h)
  foreach(folder IN LISTS INCLUDES)
    if(EXISTS ${folder}/${header})
      file(READ ${folder}/${header} text)
      string(APPEND identity "${text}")
    endif()
  endforeach()
endforeach()
string(SHA256 key "${identity}")
string(SUBSTRING ${key} 0 16 key)
set(folder ${folders}/${key})

# Two projects that are built at the same time make one.
file(LOCK ${folders} DIRECTORY GUARD PROCESS TIMEOUT 600)
if(NOT EXISTS ${folder}/levin_precompiled.h.gch)
  precompile(${folder})
  remove_unused(${folders})
endif()
file(TOUCH ${folder}/used)
file(REMOVE ${LINK})
file(CREATE_LINK ${folder} ${LINK} SYMBOLIC)
