# What `cmake --install` puts where, beside the libraries and headers (src/capi): programs, manual, completion,
# pkg-config and CMake packages, the unit and an example configuration. The tree can be moved as a whole.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The programs find liboncilla beside them, wherever the tree lies.
file(RELATIVE_PATH OCM_BIN_TO_LIB /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
file(RELATIVE_PATH OCM_SBIN_TO_LIB /${CMAKE_INSTALL_SBINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(ocm PROPERTIES INSTALL_RPATH "$ORIGIN/${OCM_BIN_TO_LIB}")
install(TARGETS ocm RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET oncillad)
  set_target_properties(oncillad PROPERTIES INSTALL_RPATH "$ORIGIN/${OCM_SBIN_TO_LIB}")
  install(TARGETS oncillad RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR})
endif()

# The manual and completion are made by the build (docs/, cli/).
install(DIRECTORY ${CMAKE_BINARY_DIR}/docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL
        FILES_MATCHING PATTERN "*.[1-9]")
set(OCM_COMPLETION ${CMAKE_BINARY_DIR}/cli/completion)
install(FILES ${OCM_COMPLETION}/ocm.bash RENAME ocm
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${OCM_COMPLETION}/ocm.zsh RENAME _ocm DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${OCM_COMPLETION}/ocm.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# pkg-config and CMake packages.
file(RELATIVE_PATH OCM_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/oncilla.pc.in ${CMAKE_BINARY_DIR}/oncilla.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/oncilla.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(OCM_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/oncilla)
configure_package_config_file(cmake/oncillaConfig.cmake.in ${CMAKE_BINARY_DIR}/oncillaConfig.cmake
  INSTALL_DESTINATION ${OCM_PACKAGE_DIR} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/oncillaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/oncillaConfig.cmake ${CMAKE_BINARY_DIR}/oncillaConfigVersion.cmake
        DESTINATION ${OCM_PACKAGE_DIR})

# The unit, which names the daemon where it was installed; its user; the configuration to copy to /etc/oncilla.
install(CODE "
  file(READ \"${CMAKE_SOURCE_DIR}/packaging/oncillad.service\" unit)
  string(REGEX REPLACE \"ExecStart=[^ \n]*\" \"ExecStart=\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_SBINDIR}/oncillad\" unit \"\${unit}\")
  file(WRITE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/systemd/system/oncillad.service\" \"\${unit}\")
")
install(FILES packaging/oncilla.sysusers RENAME oncilla.conf DESTINATION lib/sysusers.d)
install(FILES packaging/oncillad.toml DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(OCM_TESTS)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME Install.ProgramsCompileAgainstTheTree
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/check_install.py ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR}
            ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER} "${OCM_SANITIZE}")
  set_tests_properties(Install.ProgramsCompileAgainstTheTree PROPERTIES TIMEOUT 300)
endif()
