ocm_room(fabric/fake ocm_fabric)
# By itself, so that what links every fabric takes of this one no more than it.
set_source_files_properties(fabric/fake/entry.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
