# liboncilla in programs that have the same things: schemas with the names of its own, or liboncilla a second time.
protobuf_generate_cpp(sources headers schema/control.proto schema/catalogue.proto)
add_executable(own_schema schema/own_schema.cpp ${sources})
target_include_directories(own_schema SYSTEM PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
target_link_libraries(own_schema PRIVATE oncilla protobuf::libprotobuf)
add_test(NAME Library.LeavesASchemaOfTheSameNameAlone COMMAND own_schema)

add_executable(loaded_twice schema/loaded_twice.c)
target_include_directories(loaded_twice PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(loaded_twice PRIVATE ${CMAKE_DL_LIBS})
add_dependencies(loaded_twice oncilla)
add_test(NAME Library.LoadsAgainAfterItWasUnloaded COMMAND loaded_twice $<TARGET_FILE:oncilla>)
# What the library keeps until the process ends is out of reach once it is unloaded.
set_tests_properties(Library.LoadsAgainAfterItWasUnloaded PROPERTIES
  ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0:abort_on_error=1")
