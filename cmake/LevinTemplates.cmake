# levin_embed_templates(OUTPUT FOLDER): writes the initializers {"folder", "name", R"(text)"} of a struct for each file below a folder
# of this one, so that what the program writes from them works wherever it is.
function(levin_embed_templates output folder)
  set(root ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${root} ${root}/*)
  list(SORT files)
  set(entries "")
  foreach(file IN LISTS files)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${root}/${file})
    file(READ ${root}/${file} text)
    cmake_path(GET file PARENT_PATH project)
    cmake_path(GET file FILENAME name)
    # Sources end with .in: they are C++ only when their places are filled.
    string(REGEX REPLACE "\\.in$" "" name "${name}")
    # A literal may be 64 KiB long.
    string(LENGTH "${text}" length)
    if(length GREATER 60000)
      message(FATAL_ERROR "${root}/${file} is too long to be compiled in.")
    endif()
    string(APPEND entries "{\"${project}\", \"${name}\", R\"levin_template(${text})levin_template\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT "@entries@")
endfunction()
