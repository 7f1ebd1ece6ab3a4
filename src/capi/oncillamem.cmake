# The 2013 API: the objects (also linked by their unit test, over a double of liboncilla), and libocm.
include(GNUInstallDirs)
add_library(ocm_oncillamem OBJECT
  oncillamem/library.cpp oncillamem/local_buffer.cpp oncillamem/oncillamem.cpp oncillamem/pair.cpp
  oncillamem/remote_buffer.cpp)
target_link_libraries(ocm_oncillamem PUBLIC ocm_base)
set_target_properties(ocm_oncillamem PROPERTIES UNITY_BUILD OFF)  # one file gives the 2013 names their visibility

if(TARGET oncilla)
  set(OCM_2013_MAP ${CMAKE_CURRENT_LIST_DIR}/oncillamem/libocm.map)
  add_library(libocm SHARED)
  target_link_libraries(libocm PRIVATE ocm_oncillamem ocm_base oncilla)
  target_link_options(libocm PRIVATE -Wl,--version-script=${OCM_2013_MAP})
  set_target_properties(libocm PROPERTIES
    OUTPUT_NAME ocm VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS ${OCM_2013_MAP} INSTALL_RPATH $ORIGIN)
  install(TARGETS libocm LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
# As <oncillamem.h>, where programs of 2013 look for it, and beside oncilla.h.
install(FILES ${CMAKE_SOURCE_DIR}/include/oncilla/oncillamem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_SOURCE_DIR}/include/oncilla/oncillamem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/oncilla)
