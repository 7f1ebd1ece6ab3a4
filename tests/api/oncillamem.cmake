# Programs of the 2013 kind, built as outside programs are: with <oncillamem.h> and -locm -lm alone.
set(OCM_OUTSIDE_CC ${CMAKE_C_COMPILER} -g)
if(OCM_SANITIZE)
  list(APPEND OCM_OUTSIDE_CC -fsanitize=${OCM_SANITIZE})
endif()
string(REPLACE ";" " " OCM_OUTSIDE_CC "${OCM_OUTSIDE_CC}")

# ocm_outside_program(NAME INCLUDE_DIR LIBRARIES FILE): compiled when the test runs; exit code 77 skips it.
function(ocm_outside_program name include libraries file)
  add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/api/outside_program.sh
           ${OCM_OUTSIDE_CC} ${include} ${CMAKE_BINARY_DIR}/src/capi ${libraries} ${file})
  set_tests_properties(${name} PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
endfunction()

file(GLOB programs CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/programs/*.c)
foreach(program ${CMAKE_CURRENT_LIST_DIR}/oncillamem_test.c ${programs})
  get_filename_component(name ${program} NAME_WE)
  ocm_outside_program(Program2013.${name} ${CMAKE_SOURCE_DIR}/include/oncilla "-locm -lm" ${program})
endforeach()

# The leak checker of a forked child cannot stop the parent's threads and takes what they hold for lost; the thread
# sanitizer ends a child that starts threads.
set_tests_properties(Program2013.fork PROPERTIES
                     ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0;TSAN_OPTIONS=die_after_fork=0")

# The header by itself in every C and C++ that a program may be written in.
foreach(standard c89 c99 c11 c++98 c++20)
  set(warnings -Wall -Wextra -Werror)
  if(NOT standard STREQUAL "c89")  # whose pedants know no bool
    list(APPEND warnings -pedantic)
  endif()
  if(standard MATCHES "\\+")
    set(language ${CMAKE_CXX_COMPILER} -xc++)
  else()
    set(language ${CMAKE_C_COMPILER} -xc)
  endif()
  add_test(NAME Header2013.CompilesAs.${standard}
           COMMAND ${language} -std=${standard} ${warnings} -fsyntax-only
                   ${CMAKE_SOURCE_DIR}/include/oncilla/oncillamem.h)
endforeach()
add_test(NAME Program2013.LibraryExportsTheNamesOf2013 COMMAND ${CMAKE_CURRENT_LIST_DIR}/exported_names.sh
         ${CMAKE_BINARY_DIR}/src/capi/libocm.so ${CMAKE_SOURCE_DIR}/include/oncilla/oncillamem.h)
