# levin_embed_templates(OUTPUT FOLDER [PLACE=FILE...]): writes the initializers {"folder", "name", {R"(text)", length}} of a struct for
# each file below a folder of this one, and for each FILE elsewhere as if it stood at PLACE there, so that what the program writes from
# them works wherever it is. `folder` is the first of a place, `name` what follows.
function(levin_embed_templates output folder)
  set(root ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  file(GLOB_RECURSE places CONFIGURE_DEPENDS RELATIVE ${root} ${root}/*)
  list(TRANSFORM places REPLACE "(.+)" "\\1=${root}/\\1")
  list(APPEND places ${ARGN})
  list(SORT places)
  set(entries "")
  foreach(place IN LISTS places)
    string(REGEX MATCH "^(([^/=]+)/)?([^=]+)=(.+)$" matched ${place})
    set(project "${CMAKE_MATCH_2}")
    set(name ${CMAKE_MATCH_3})
    set(file ${CMAKE_MATCH_4})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    # Sources end with .in: they are C++ only when their placeholders are filled.
    string(REGEX REPLACE "\\.in$" "" name ${name})
    # With its length: compilers count the letters of a constant text one by one, and not all of a long one.
    string(LENGTH "${text}" length)
    string(APPEND entries "{\"${project}\", \"${name}\", {R\"levin_template(${text})levin_template\", ${length}}},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT "@entries@")
endfunction()
