# `make deb`: with LEVIN_DEBIAN, cpack makes a Debian package of what is installed. All of it lies in /usr/lib/levin, as in a wheel, but for
# /usr/bin/levin, manual, completions and what find_package(levin) finds first. LibTorch is not part of it: see cli/libtorch_at_hand.h.
set(package_documents share/doc/levin)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, where it is set
configure_file(cmake/debian/changelog.in ${PROJECT_BINARY_DIR}/debian/changelog @ONLY)
execute_process(COMMAND gzip -9nkf ${PROJECT_BINARY_DIR}/debian/changelog COMMAND_ERROR_IS_FATAL ANY)
install(CODE "execute_process(COMMAND gzip -9nf \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/man/man1/levin.1 COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${PROJECT_BINARY_DIR}/debian/changelog.gz cmake/debian/copyright DESTINATION ${package_documents})

file(CREATE_LINK ../lib/levin/bin/levin ${PROJECT_BINARY_DIR}/debian/levin SYMBOLIC)
install(FILES ${PROJECT_BINARY_DIR}/debian/levin DESTINATION bin)
file(WRITE ${PROJECT_BINARY_DIR}/debian/levinConfig.cmake "include(/usr/${levin_package_folder}/levinConfig.cmake)\n")
install(FILES ${PROJECT_BINARY_DIR}/debian/levinConfig.cmake ${PROJECT_BINARY_DIR}/levinConfigVersion.cmake DESTINATION lib/cmake/levin)
levin_write_pc(${PROJECT_BINARY_DIR}/debian/levin-c.pc /usr ${levin_pc_paths})
install(FILES ${PROJECT_BINARY_DIR}/debian/levin-c.pc DESTINATION lib/pkgconfig)

# The packages whose libraries liblevin is linked to. dpkg-shlibdeps would fail over LibTorch, which is of none.
set(packages "")
foreach(library IN ITEMS yaml-cpp fmt protobuf-lite png16 z)
  unset(levin_linked)
  find_library(levin_linked ${library} NO_CACHE REQUIRED)
  file(REAL_PATH ${levin_linked} levin_linked)
  cmake_path(GET levin_linked FILENAME levin_linked)
  execute_process(COMMAND dpkg-query -S "*/${levin_linked}" OUTPUT_VARIABLE owner COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "^[^:]+" owner "${owner}")
  list(APPEND packages ${owner})
endforeach()
list(APPEND packages "libc6 (>= 2.36)" "libstdc++6 (>= 12)" libgcc-s1)
list(JOIN packages ", " CPACK_DEBIAN_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libjpeg62-turbo, libwebp7, libhdf5-103-1, libpcre2-8-0, libutf8proc2, libzstd1") # of libraries that are loaded when they are needed

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME levin)
set(CPACK_PACKAGE_CONTACT "levin's developers <levin@users.noreply.github.com>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "training runtime for C++ on LibTorch")
set(CPACK_PACKAGE_DESCRIPTION "Modules, loops, logging, checkpoints, data loading and ranks, in the style of
PyTorch Lightning: a module and a YAML file, and `levin fit` trains it.
LibTorch ${LEVIN_TORCH_VERSION} comes from PyPI (`levin setup`), or from a folder that you name.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-pip, g++, cmake")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
include(CPack)
