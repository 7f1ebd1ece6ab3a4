# What goes into the wheel, all below oncilla/: the module, liboncilla and the programs, which find each other by
# $ORIGIN. A wheel has no links: liboncilla carries its plain name.
#
# libprotobuf-lite and libnuma come along as they are: Debian's static archives cannot go into a shared library (their
# thread-local variables are those of programs). OpenSSL stays the system's, which repairs it.
set_property(TARGET oncilla PROPERTY VERSION)
set_property(TARGET oncilla PROPERTY SOVERSION)
set_target_properties(oncilla PROPERTIES INSTALL_RPATH "$ORIGIN")
set_target_properties(ocm oncillad PROPERTIES INSTALL_RPATH "$ORIGIN/..")
install(TARGETS ocm_python oncilla LIBRARY DESTINATION oncilla COMPONENT python)
install(FILES ${CMAKE_BINARY_DIR}/python/oncilla/_core.pyi DESTINATION oncilla COMPONENT python)
install(TARGETS ocm oncillad RUNTIME DESTINATION oncilla/bin COMPONENT python)

get_target_property(OCM_PROTOBUF protobuf::libprotobuf-lite IMPORTED_LOCATION_RELEASE)
if(NOT OCM_PROTOBUF)
  get_target_property(OCM_PROTOBUF protobuf::libprotobuf-lite IMPORTED_LOCATION)
endif()
foreach(library ${OCM_PROTOBUF} ${NUMA_LIBRARY})
  file(REAL_PATH ${library} file)
  if(file MATCHES "/(lib[a-z-]+\\.so\\.[0-9]+)[0-9.]*$")  # by the name that programs ask for
    install(FILES ${file} RENAME ${CMAKE_MATCH_1} DESTINATION oncilla COMPONENT python)
  endif()
endforeach()
